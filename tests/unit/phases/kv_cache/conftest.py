"""Request traces by hand and by hypothesis, and the real ones where they are."""

import os
from pathlib import Path

import numpy as np
import pytest

from pytest_gpuio.phases.traces import RequestTrace

SHARED = Path(os.environ.get("GPUIO_SHARED_DATA", Path(__file__).resolve().parents[5] / "shared" / "data"))


def request_trace(requests, block_tokens=512, gap_ns=1_000_000_000, tokens=None):
    """A trace of lists of block ids; prompts fill their blocks unless tokens are given."""
    ids = [block for blocks in requests for block in blocks]
    sizes = [len(blocks) for blocks in requests]
    return RequestTrace(
        Path("by-hand"),
        "mooncake",
        np.arange(len(requests), dtype=np.int64) * gap_ns,
        np.array(tokens or [size * block_tokens for size in sizes], dtype=np.int64),
        np.ones(len(requests), dtype=np.int64),
        np.array(ids, dtype=np.int64),
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        block_tokens,
    )


@pytest.fixture(scope="session")
def by_hand():
    """Function: see :func:`request_trace`."""
    return request_trace


@pytest.fixture
def shared():
    """Function: a real trace's path, or a skip."""

    def find(name):
        path = SHARED / name
        if not path.is_file():
            pytest.skip(f"{path} is not here")
        return path

    return find
