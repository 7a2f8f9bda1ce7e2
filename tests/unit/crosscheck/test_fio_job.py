"""A plan as fio's arguments; that fio understands them is tried with the real one."""

from dataclasses import replace

import pytest

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.crosscheck.fio_job import fio_job
from pytest_gpuio.crosscheck.known_faults import applying
from pytest_gpuio.measure.plan import Plan

PLAN = Plan(
    engine="io_uring", library=None, path="/x/y.dat", region_offset=65536, region_bytes=(64 << 20) + 100,
    pattern_seed=1, order="random", read_percent=100, zipf_theta=0.0, bs=4096, qd=32, jobs=1, submit_batch=4,
    reap_batch=8, knobs=("fixed_buffers", "merged_wait", "registered_files"), cache="direct", sync="none",
    sync_every=0, dsync=False, round="time", window_s=0.25, precision=0.05, max_time=2.0, timeout_s=60.0,
    verify="sweep", counted=(), interrupt_names=(), cpus=(1,), seed=3,
)  # fmt: skip


def arguments(plan, **options):
    found = {}
    for argument in fio_job(plan, 2.0, **options).arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        assert name not in found
        found[name] = value
    return found


def test_the_same_cell():
    found = arguments(PLAN)
    assert found["ioengine"] == "io_uring"
    assert found["filename"] == "/x/y.dat"
    assert (found["bs"], found["iodepth"], found["numjobs"]) == ("4096", "32", "1")
    assert (found["offset"], found["size"]) == ("65536", str(64 << 20))  # whole blocks only, as ours
    assert (found["iodepth_batch_submit"], found["iodepth_batch_complete_min"]) == ("4", "8")
    assert found["iodepth_batch_complete_max"] == "32"  # our reap takes all there is
    assert (found["direct"], found["fixedbufs"], found["registerfiles"]) == ("1", "1", "1")
    assert found["cpus_allowed"] == "1"
    assert (found["runtime"], found["ramp_time"]) == ("2000ms", "500ms")
    assert found["rw"] == "randread"
    assert found["random_generator"] == "lfsr"
    assert (found["lat_percentiles"], found["clat_percentiles"], found["slat_percentiles"]) == ("1", "0", "0")
    assert found["allow_file_create"] == "0"
    assert "readonly" in found


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"engine": "psync", "qd": 1}, {"ioengine": "psync"}),
        ({"engine": "libaio"}, {"ioengine": "libaio"}),
        ({"engine": "null", "path": None}, {"ioengine": "null"}),
        ({"engine": "mmap", "qd": 1, "cache": "hot"}, {"ioengine": "mmap", "direct": "0", "invalidate": "0"}),
        ({"engine": "io_uring_sqpoll", "sq_cpus": (0,)}, {"sqthread_poll": "1", "sqthread_poll_cpu": "0"}),
        ({"engine": "io_uring_iopoll"}, {"hipri": "1"}),
        ({"engine": "io_uring_full", "sq_cpus": (0,)}, {"hipri": "1", "sqthread_poll": "1"}),
        ({"engine": "io_uring_cmd"}, {"ioengine": "io_uring_cmd", "cmd_type": "nvme"}),
        ({"order": "sequential"}, {"rw": "read"}),
        ({"read_percent": 0}, {"rw": "randwrite"}),
        ({"read_percent": 0, "order": "sequential", "sync": "end"}, {"rw": "write", "end_fsync": "1"}),
        ({"read_percent": 0, "sync": "every", "sync_every": 16}, {"fdatasync": "16"}),
        ({"read_percent": 0, "dsync": True}, {"sync": "dsync"}),
        ({"read_percent": 70}, {"rw": "randrw", "rwmixread": "70", "unified_rw_reporting": "mixed"}),
        ({"jobs": 2, "cpus": (1, 0)}, {"numjobs": "2", "size": str(32 << 20), "offset_increment": str(32 << 20)}),
        ({"path": "/x/a:b"}, {"filename": "/x/a\\:b"}),
    ],
)
def test_each_axis(change, expected):
    found = arguments(replace(PLAN, **change))
    assert {name: found.get(name) for name in expected} == expected
    assert ("readonly" in found) == (change.get("read_percent", 100) == 100)  # fio itself then refuses to write
    assert ("filename" in found) == (replace(PLAN, **change).path is not None)


def test_workers_that_are_not_pinned_are_not_pinned_there():
    assert "cpus_allowed" not in arguments(replace(PLAN, cpus=(-1,)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"engine": "spdk"}, "nothing like the engine spdk"),
        ({"cache": "cold"}, "cold cache cannot be compared"),
        ({"arrivals": "fixed:100"}, "open loop cannot be compared"),
        ({"order": "zipf", "zipf_theta": 1.1}, "zipf offsets cannot be compared"),
    ],
)
def test_what_cannot_be_compared_is_refused(change, words):
    with pytest.raises(ConfigError, match=words):
        fio_job(replace(PLAN, **change), 1.0)


def test_what_differs_is_said():
    assert any("merged_wait" in sentence for sentence in fio_job(PLAN, 1.0).unmatched)
    assert any("131,072 bytes" in sentence for sentence in fio_job(PLAN, 1.0).unmatched)
    large = replace(PLAN, bs=1 << 20, qd=8, knobs=())
    assert fio_job(large, 1.0).environment == {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    assert fio_job(large, 1.0).unmatched == ()
    plain = fio_job(large, 1.0, huge_buffers=False)
    assert plain.environment == {}
    assert any("default" in sentence for sentence in plain.unmatched)
    assert any("own part" in sentence for sentence in fio_job(replace(PLAN, jobs=2, cpus=(0, 1)), 1.0).unmatched)
    assert any("checks every read" in sentence for sentence in fio_job(replace(PLAN, verify="full"), 1.0).unmatched)


def test_faults_are_named_where_they_apply():
    def names(version=(3, 33), **change):
        return {fault.name for fault in applying(replace(PLAN, **change), version)}

    assert {"sqpoll_clat", "rusage_thread"} <= names(engine="io_uring_sqpoll", sq_cpus=(0,))
    assert "sqpoll_clat" not in names((3, 36), engine="io_uring_sqpoll", sq_cpus=(0,))
    assert "rusage_thread" in names((3, 42), engine="io_uring_full", sq_cpus=(0,))
    assert names(engine="psync") == {"registration_inside"}
    assert names(engine="null", path=None) == set()
