"""``io_uring_sqpoll``: a kernel thread polls the submission queue, so that submitting needs no system call."""

from pytest_gpuio.datapaths.base import DataPath, kernel_path

IO_URING_SQPOLL = DataPath(
    name="io_uring_sqpoll",
    title="io_uring with a kernel thread that polls for submissions",
    engine="io_uring_sqpoll",
    needs=("engine", "io_uring", "io_uring_sqpoll"),
    family="io_uring",
    synchronous=False,
    knobs=frozenset({"fixed_buffers", "registered_files"}),
    submission_poller=True,
    polls=True,
    prove=kernel_path("io_uring_sqpoll", "io_uring_sqpoll", helper="iou-sqp"),
)
