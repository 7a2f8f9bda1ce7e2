"""Inference: cold starts, key-value cache, weights that do not fit, vector search."""
