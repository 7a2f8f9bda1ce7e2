"""Files for the tests of the targets room."""

import os

import pytest

from pytest_gpuio.media import classify


@pytest.fixture
def file_of(tmp_path):
    """Function: a file of random bytes that is on its medium, open for reading and writing; returns (path, fd)."""
    opened = []

    def make(size: int, name: str = "f"):
        path = tmp_path / name
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        opened.append(fd)
        os.pwrite(fd, os.urandom(size), 0)
        os.fsync(fd)
        return path, fd

    yield make
    for fd in opened:
        os.close(fd)


@pytest.fixture
def on_disk(tmp_path):
    """Skips where the temporary directory is memory: its page cache cannot be dropped."""
    medium = classify(tmp_path)
    if medium.name == "ram" or medium.file_system == "overlay":
        pytest.skip(f"needs a disk under the temporary directory, which lies on {medium.file_system}")
    return tmp_path
