"""``mmap``: the file is mapped and copied; page faults bring it in, through the page cache."""

from pytest_gpuio.datapaths.base import DataPath, kernel_path

MMAP = DataPath(
    name="mmap",
    title="copies from a mapped file, page faults included",
    engine="mmap",
    needs=("engine", "page_cache"),
    family="posix",
    synchronous=True,
    # A mapping without DAX is the page cache: there is no direct form of it.
    caches=("cold", "hot"),
    prove=kernel_path("mmap", "mmap"),
)
