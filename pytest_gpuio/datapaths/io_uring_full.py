"""``io_uring_full``: the kernel polls for submissions and for completions."""

from pytest_gpuio.datapaths.base import DataPath, kernel_path

IO_URING_FULL = DataPath(
    name="io_uring_full",
    title="io_uring polling for submissions and completions",
    engine="io_uring_full",
    needs=("engine", "io_uring", "io_poll", "io_uring_full"),
    family="io_uring",
    synchronous=False,
    knobs=frozenset({"fixed_buffers", "registered_files"}),
    caches=("direct",),
    submission_poller=True,
    polls=True,
    prove=kernel_path("io_uring_full", "io_uring_full", helper="iou-sqp", polled=True),
)
