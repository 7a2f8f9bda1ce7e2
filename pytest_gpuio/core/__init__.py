"""Frozen values every other room speaks in: cells, sizes, errors, capabilities; no I/O."""
