"""The HTML page: one file that needs no network, made from records alone."""
