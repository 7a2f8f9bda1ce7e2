"""Crossings between points whose truth is known."""

import math
import random

import pytest

from pytest_gpuio.analysis.crossover import SYNCHRONOUS, Point, find, from_runs, shown
from pytest_gpuio.analysis.metrics import metric
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.datapaths import DATAPATHS

#: A copy: other tests register more.
OUR_DATAPATHS = dict(DATAPATHS)


def point(x, gain, count=6, noise=0.0):
    draw = random.Random(x)
    return Point(x, tuple(math.log1p(gain) + draw.gauss(0, noise) for _ in range(count)))


def crossing(*points, axis="bs"):
    return find("psync", "io_uring", axis, "bytes_per_s", points)


def test_points():
    assert point(1, 0.1).better == "a"
    assert point(1, -0.1).better == "b"
    assert point(1, 0.0, noise=0.1, count=12).better == "undecided"
    assert point(1, 0.5, count=5).better == "undecided"  # five of five is 1/32
    assert Point(1, ()).better == "undecided"
    assert point(1, 0.1).gain == pytest.approx(0.1)


def test_one_crossing_between_measured_places():
    found = crossing(point(1 << 20, 0.4), point(4096, -0.5), point(65536, -0.1), point(131072, 0.1))
    (one,) = found.crossings
    assert (one.low, one.high, one.below) == (65536, 131072, "b")
    assert found.sentence == "io_uring is better up to 64k, psync from 128k on (measured from 4k to 1m)"


def test_undecided_places_widen_the_interval():
    found = crossing(point(1, -0.5), point(2, 0.0, noise=0.1, count=12), point(4, 0.5), axis="qd")
    assert [(one.low, one.high) for one in found.crossings] == [(1, 4)]
    assert "io_uring is better up to qd1, psync from qd4 on" in found.sentence


def test_no_crossing_is_said_as_such():
    assert "psync is better everywhere from 4k to 8k" in crossing(point(4096, 0.1), point(8192, 0.2)).sentence
    partly = crossing(point(4096, 0.1), point(8192, 0.0, noise=0.1, count=12))
    assert "psync is better at 1 of 2 places" in partly.sentence
    assert "cannot be told apart" in crossing(point(4096, 0.0, noise=0.1, count=12)).sentence
    assert "nothing was measured" in crossing().sentence


def test_two_crossings():
    found = crossing(point(4096, 0.1), point(8192, -0.1), point(16384, 0.1))
    assert len(found.crossings) == 2
    assert found.sentence.count("; ") == 1


def test_from_runs(record, run):
    draw = random.Random(2)

    def cell(path, bs, speed):
        made = record(1 / speed * (1 + draw.gauss(0, 0.001)), case=f"{path} {bs}", effective__datapath=path)
        made["axes"] |= {"datapath": path, "bs": bs}
        made["bytes"] = made["ios"] * bs
        return made

    runs = [
        run(cell("psync", 4096, 1.0), cell("libaio", 4096, 2.0), cell("psync", 65536, 2.0), cell("libaio", 65536, 1.0))
        for _ in range(6)
    ]
    (found,) = from_runs(runs, "psync", "libaio", "bs", metric("bytes_per_s"))
    assert [(p.x, p.better) for p in found.points] == [(4096, "b"), (65536, "a")]
    assert found.points[0].gain == pytest.approx(-0.5, abs=0.01)
    assert found.situation["workload"] == "inference/kv_fetch"
    assert "bs" not in found.situation
    (turned,) = from_runs(runs, "psync", "libaio", "bs", metric("seconds_per_io"))
    assert [p.better for p in turned.points] == ["b", "a"]
    with pytest.raises(ConfigError, match="no run measured both psync and gds"):
        from_runs(runs, "psync", "gds", "bs", metric("bytes_per_s"))


def test_places_in_words():
    assert (shown("bs", 65536), shown("qd", 32)) == ("64k", "qd32")


def test_a_synchronous_path_is_compared_at_its_only_depth(record, run):
    draw = random.Random(3)

    def cell(path, bs, qd, speed):
        made = record(1 / speed * (1 + draw.gauss(0, 0.001)), case=f"{path} {bs} {qd}", effective__datapath=path)
        made["axes"] |= {"datapath": path, "bs": bs, "qd": qd}
        return made

    runs = [
        run(cell("gds", 4096, 1, 1.0), cell("gds", 65536, 1, 2.5), cell("io_uring", 4096, 32, 2.0),
            cell("io_uring", 65536, 32, 2.0), cell("io_uring", 4096, 1, 0.5), cell("libaio", 4096, 1, 0.5))
        for _ in range(6)
    ]  # fmt: skip
    both = from_runs(runs, "gds", "io_uring", "bs", metric("bytes_per_s"))
    shallow, deep = sorted(both, key=lambda found: found.situation["qd"])
    assert [(p.x, p.better) for p in shallow.points] == [(4096, "a")]
    assert (deep.situation["qd"], [(p.x, p.better) for p in deep.points]) == (32, [(4096, "b"), (65536, "a")])
    (along,) = [
        found for found in from_runs(runs, "gds", "io_uring", "qd", metric("bytes_per_s"))
        if found.situation["bs"] == 4096
    ]  # fmt: skip
    assert [(p.x, p.better) for p in along.points] == [(1, "a"), (32, "b")]
    # Depth 1 of a path that could do more stands for nothing but depth 1.
    with pytest.raises(ConfigError, match="no run measured both"):
        from_runs([run(cell("libaio", 4096, 1, 1.0), cell("io_uring", 4096, 32, 1.0))], "libaio", "io_uring", "bs",
                  metric("bytes_per_s"))  # fmt: skip


def test_synchronous_paths_are_those_of_the_registry():
    assert {name for name, path in OUR_DATAPATHS.items() if path.synchronous} == SYNCHRONOUS
