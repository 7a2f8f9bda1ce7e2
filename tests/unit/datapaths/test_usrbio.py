"""The proof of usrbio: the client's word, unless the kernel's count of calls contradicts it."""

import pytest

from pytest_gpuio import datapaths
from pytest_gpuio.datapaths import Evidence


def evidence(**more):
    values = {"engine": "usrbio", "facts": "rings=1 entries=32 io_depth=0", "moved": 1 << 30, "called_bytes": 1 << 20}
    return Evidence(direct=True, device_ratio=None, resident_growth=0, knobs=frozenset(), **values | more)


@pytest.mark.parametrize(
    ("more", "effective", "told"),
    [
        ({}, "usrbio", "calls of the child moved 0.001 of the bytes (/proc/self/io): the rings moved them"),
        (
            {"called_bytes": 1 << 30},
            None,
            "moved 1.000 of the bytes (/proc/self/io): they did not go through the rings",
        ),
        ({"called_bytes": None}, "usrbio", "only the client's word is there"),
        ({"facts": ""}, None, "its CPU is not counted"),
        ({"engine": "psync"}, None, "its CPU is not counted"),
    ],
)
def test_what_is_told_and_what_is_believed(more, effective, told):
    proof = datapaths.get("usrbio").prove(evidence(**more))
    assert proof.effective == effective
    assert told in proof.sentences[-1]


def test_the_daemon_that_was_counted_is_named():
    proof = datapaths.get("usrbio").prove(evidence(daemons=("hf3fs_fuse_main (4711)",)))
    assert "CPU of the daemon is counted: hf3fs_fuse_main (4711)" in proof.sentences
