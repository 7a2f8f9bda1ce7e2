"""Measuring a cell: warm-up, windows, stopping rule, CPU and device meters, validity gates."""
