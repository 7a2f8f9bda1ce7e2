import dataclasses

import pytest

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases import Workload

GOOD = Workload("micro/x", "A title.", order="random", bs=4096, qd=1, source="a paper")


def test_defaults_describe_a_plain_read():
    assert (GOOD.phase, GOOD.writes, GOOD.needs_write_file) == ("micro", False, False)
    assert (GOOD.read_percent, GOOD.jobs, GOOD.durability, GOOD.round) == (100, 1, "none", "time")


@pytest.mark.parametrize(("percent", "writes"), [(100, False), (99, True), (0, True)])
def test_any_write_needs_the_write_file(percent, writes):
    workload = dataclasses.replace(GOOD, read_percent=percent)
    assert workload.writes is writes
    assert workload.needs_write_file is writes


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": "kv_fetch"}, "malformed"),
        ({"name": "micro/Kv"}, "malformed"),
        ({"name": "micro/a/b"}, "malformed"),
        ({"name": "micro/a-b"}, "malformed"),
        ({"name": "training/x"}, "phase 'training' is none of pretrain, finetune, inference, micro"),
        ({"title": " "}, "no title"),
        ({"source": ""}, "no source"),
        ({"order": "backwards"}, "order 'backwards'"),
        ({"round": "file"}, "round 'file'"),
        ({"read_percent": 101}, "101 %"),
        ({"read_percent": -1}, "-1 %"),
        ({"bs": 0}, "block size of 0 bytes"),
        ({"bs": 1000}, "block size of 1,000 bytes is not a multiple of 512"),
        ({"qd": 0}, "queue depth 0"),
        ({"jobs": 0}, "jobs 0"),
        ({"durability": "fsync"}, "only reads"),
        ({"durability": "maybe", "read_percent": 0}, "durability 'maybe'"),
        ({"order": "zipf"}, "zipf_theta None"),
        ({"zipf_theta": 1.1}, "does not go with order 'random'"),
        ({"order": "zipf", "zipf_theta": 0.0}, "outside 0 .. 5"),
        ({"order": "zipf", "zipf_theta": float("nan")}, "outside 0 .. 5"),
        ({"round": "region"}, "one pass over the region"),
    ],
)
def test_impossible_values_are_refused(changes, text):
    with pytest.raises(ConfigError) as error:
        dataclasses.replace(GOOD, **changes)
    assert text in str(error.value)
