"""``psync``: one pread or pwrite system call per request."""

from pytest_gpuio.datapaths.base import DataPath, kernel_path

PSYNC = DataPath(
    name="psync",
    title="pread and pwrite, one request in flight per job",
    engine="psync",
    needs=("engine",),
    family="posix",
    synchronous=True,
    prove=kernel_path("psync", "psync"),
)
