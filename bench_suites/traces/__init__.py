"""Replays of traces: name the file with --gpuio-workload-param file=PATH."""
