"""``io_uring_iopoll``: completions are polled from the device's poll queue instead of interrupting (HIPRI)."""

from pytest_gpuio.datapaths.base import DataPath, kernel_path

IO_URING_IOPOLL = DataPath(
    name="io_uring_iopoll",
    title="io_uring polling for completions",
    engine="io_uring_iopoll",
    needs=("engine", "io_uring", "io_poll", "io_uring_iopoll"),
    family="io_uring",
    synchronous=False,
    knobs=frozenset({"fixed_buffers", "registered_files", "single_issuer", "merged_wait"}),
    caches=("direct",),
    polls=True,
    prove=kernel_path("io_uring_iopoll", "io_uring_iopoll", polled=True),
)
