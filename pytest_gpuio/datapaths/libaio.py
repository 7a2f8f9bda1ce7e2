"""``libaio``: the kernel's native asynchronous I/O, io_submit and io_getevents."""

from pytest_gpuio.datapaths.base import DataPath, kernel_path

LIBAIO = DataPath(
    name="libaio",
    title="kernel native AIO through raw io_submit and io_getevents",
    engine="libaio",
    needs=("engine", "libaio"),
    family="posix",
    synchronous=False,
    prove=kernel_path("libaio", "libaio"),
)
