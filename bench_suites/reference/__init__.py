"""The same bytes by an application's own framework and by raw data paths: what the application leaves on the table."""
