"""The same cell run by our engine and by fio, side by side, and what the difference is worth."""
