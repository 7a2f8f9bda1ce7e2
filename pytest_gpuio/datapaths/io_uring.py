"""``io_uring``: interrupt-driven completion, one ring per worker."""

from pytest_gpuio.datapaths.base import DataPath, kernel_path

IO_URING = DataPath(
    name="io_uring",
    title="io_uring completing by interrupt",
    engine="io_uring",
    needs=("engine", "io_uring"),
    family="io_uring",
    synchronous=False,
    knobs=frozenset({"fixed_buffers", "registered_files", "single_issuer", "merged_wait"}),
    prove=kernel_path("io_uring", "io_uring"),
)
