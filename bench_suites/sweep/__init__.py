"""Cells of a sweep's plan as pytest items."""
