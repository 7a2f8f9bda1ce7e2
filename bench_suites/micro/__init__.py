"""The classic patterns of I/O benchmarks."""
