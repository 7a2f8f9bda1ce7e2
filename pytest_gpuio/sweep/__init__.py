"""Many cells and many processes: what to measure, in which order, and starting pytest to do it."""
