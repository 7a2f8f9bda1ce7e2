"""Long times for people."""

from __future__ import annotations


def long_duration(seconds: float) -> str:
    """``41 h 18 min``, ``12 min``, ``45 s``."""
    minutes = round(seconds / 60)
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
