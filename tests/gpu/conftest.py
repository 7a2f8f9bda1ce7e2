"""What tests on a real GPU share; without one they are skipped with the driver's own reason."""

import mmap
import os

import pytest

from pytest_gpuio import engine
from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import Clock, Pool, pattern_fill

MIB = 1 << 20
SEED = 7


@pytest.fixture(scope="session")
def gpus():
    try:
        return engine.gpus()
    except EngineError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def clock():
    return Clock.calibrate()


@pytest.fixture(scope="module")
def pool():
    # One for the whole module: contexts and page-locked memory are kept from run to run, as in a measuring child.
    pool = Pool()
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A function that lays out a file of the pattern and gives its path."""
    folder = tmp_path_factory.mktemp("files")

    def lay_out(name: str, size: int = 64 * MIB, seed: int = SEED):
        path = folder / name
        if not path.exists():
            content = mmap.mmap(-1, size)
            pattern_fill(content, 0, seed)
            path.write_bytes(content)
            with path.open("rb") as file:
                os.fsync(file.fileno())
        return path

    return lay_out
