"""Measure which storage data path each phase of an LLM's life should use, and what it costs in CPU."""

__version__ = "0.1.0"
