"""Verdicts from records: pure functions of finished results, on any machine."""
