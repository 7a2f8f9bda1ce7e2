"""What people read: terminal tables from records, and how pytest-benchmark's compare groups and scales them."""
