"""``io_uring_cmd``: NVMe commands through io_uring to the generic character device, past the block layer."""

from pytest_gpuio.datapaths.base import DataPath, kernel_path

IO_URING_CMD = DataPath(
    name="io_uring_cmd",
    title="NVMe passthrough commands on /dev/ngXnY",
    engine="io_uring_cmd",
    needs=("engine", "io_uring", "nvme_passthrough", "io_uring_cmd"),
    family="io_uring",
    synchronous=False,
    knobs=frozenset({"fixed_buffers", "registered_files", "single_issuer", "merged_wait"}),
    caches=("direct",),
    prove=kernel_path("io_uring_cmd", "io_uring_cmd"),
)
