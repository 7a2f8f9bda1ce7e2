"""Measuring children: start, deadline, messages, death, and the host-wide lock; knows nothing of what is measured."""
