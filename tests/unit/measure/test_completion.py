"""What groups came to, worked out by hand for small sets of records."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.engine.replay import GROUP, RECORD
from pytest_gpuio.measure.completion import replayed
from pytest_gpuio.measure.plan import ReplayFile
from pytest_gpuio.measure.records import ReplaySet, encode, kernel_step, make_set, model_gpus
from pytest_gpuio.phases import Parameter, RecordModel
from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.records import FSYNC, WRITE, Records

MS = 1_000_000


def model(build, deciding="completion", **changed) -> RecordModel:
    return RecordModel("inference/mine", "Mine.", "me", build, deciding, **changed)


def totals(size: int, seconds: float) -> SimpleNamespace:
    """Of what the figures look at, only bytes and seconds."""
    return SimpleNamespace(bytes=size, seconds=seconds)


def as_set(records: Records, **changed) -> ReplaySet:
    return ReplaySet(model(lambda _: records, **changed), records, records.groups, records.bytes_of(), 4096)


def times(*rows: tuple[int, ...]) -> np.ndarray:
    """One window of (due, start, end, consume, computed or nothing) milliseconds per group."""
    return np.array([[(*row, 0)[:5] for row in rows]], np.uint64) * MS


def test_completion_counts_from_when_a_group_might_start() -> None:
    records = Records.build(Files.of({"a": 1 << 20}), offset=np.arange(4) * 4096, length=4096)
    found = replayed(
        as_set(records), times((0, 0, 10, 10), (5, 20, 65, 65), (0, 0, 30, 30), (0, 0, 40, 40)), totals(16384, 0.1), 0.5
    )
    assert (found["completion"]["p50_ns"], found["completion"]["p99_ns"]) == (30 * MS, 60 * MS)
    assert found["completion"]["over_ms"] == {"50": 0.25, "100": 0.0, "200": 0.0, "1000": 0.0}
    assert found["deciding"] == {"metric": "completion_p99", "value": 0.06, "unit": "s", "better": "lower"}
    assert found["cpu_s_per_gb"] == pytest.approx(0.5 / 16384e-9)
    assert found["stall"] is None
    assert found["amplification"] == 1.0


def test_the_slowest_rank_decides_how_long_a_checkpoint_takes() -> None:
    records = Records.build(
        Files.of({"a": 1 << 20}), offset=np.arange(3) * 4096, length=[4096, 4096, 8192], op=WRITE, chain=[0, 1, 1],
        rank=[0, 1],
    )  # fmt: skip
    found = replayed(
        as_set(records, deciding="durable"),
        times((0, 0, 10, 10), (0, 0, 20, 20), (20, 20, 50, 50)),
        totals(16384, 0.05),
        0.1,
    )
    assert found["ranks"]["count"] == 2
    assert found["ranks"]["max_rank_s"] == pytest.approx(0.05)
    # Rank 0: 4,096 bytes in 10 ms; rank 1: 12,288 in 50 ms.
    assert found["ranks"]["min_rank_gb_per_s"] == pytest.approx(12288e-9 / 0.05)
    assert found["deciding"]["metric"] == "durable"
    assert found["deciding"]["value"] == pytest.approx(0.05)


def test_utilisation_is_that_of_the_timeline() -> None:
    records = Records.build(
        Files.of({"a": 1 << 20}),
        offset=np.arange(3) * 4096,
        length=4096,
        chain=[0, 0, 0],
        compute_ns=10 * MS,
        prefetch=1,
    )
    found = replayed(
        as_set(records, deciding="utilization"),
        times((0, 0, 5, 5), (0, 0, 8, 15), (15, 15, 35, 35)),
        totals(1, 1.0),
        0.1,
    )
    # Compute from 5, 15 and 35 ms on, 10 ms each: 20 ms of compute in the 30 ms after the first step.
    assert found["deciding"]["value"] == pytest.approx(20 / 30)
    assert found["stall"]["stall_s"] == pytest.approx(0.010)


def cell(bs: int) -> SimpleNamespace:
    return SimpleNamespace(bs=bs, workload="inference/mine")


def test_a_set_is_rounded_split_and_counted() -> None:
    records = Records.build(Files.of({"a": 100_000}), offset=[100, 8192], length=[5000, 20_000])
    found = make_set(model(lambda _: records), cell(8192), 4096, 1.0)
    assert found.wanted_bytes == 25_000
    assert found.largest == 20_000
    # 100..5,100 becomes 0..8,192; 8,192..28,192 becomes 8,192..28,672, in pieces of 8,192.
    assert found.records.offset.tolist() == [0, 8192, 16384, 24576]
    assert found.records.length.tolist() == [8192, 8192, 8192, 4096]
    assert int(found.records.files.sizes[0]) == 102_400


def test_a_long_trace_is_cut_to_what_fits_the_time() -> None:
    records = Records.build(Files.of({"a": 1 << 20}), offset=np.arange(100), length=1, time_ns=np.arange(100) * 10**8)
    found = make_set(model(lambda _: records), cell(4096), None, 3.0)
    assert found.all_groups == 100
    assert found.records.span_ns == 10**9
    assert found.records.groups == 11


def test_the_engines_arrays_hold_the_same_numbers() -> None:
    records = Records.build(
        Files.of({"a": 1 << 20, "b": 1 << 20}),
        offset=[512, 0, 1024],
        length=[512, 0, 2048],
        op=[WRITE, FSYNC, WRITE],
        file=[1, 1, 0],
        group=[0, 0, 1],
        barrier=[False, False, True],
        time_ns=[-1, 7],
        compute_ns=[3, 4],
        chain=[0, 0],
        prefetch=2,
    )
    files = (ReplayFile("a", 4096, 1 << 20, 1), ReplayFile("b", 8192, 1 << 20, 2))
    flat, groups = encode(records, files)
    assert list(RECORD.iter_unpack(flat)) == [(8704, 512, 1, 1, 0), (0, 0, 1, 2, 0), (5120, 2048, 0, 1, 1)]
    assert list(GROUP.iter_unpack(groups)) == [(0, -1, 3, 0, 2), (2, 7, 4, 0, 2)]


def test_parameters_are_told_with_the_result() -> None:
    records = Records.build(Files.of({"a": 4096}), offset=[0], length=4096)
    parametrized = model(lambda _: records, parameters=(Parameter("ranks", 2, "n"),)).with_values({"ranks": 5})
    found = replayed(ReplaySet(parametrized, records, 1, 4096, 4096), times((0, 0, 1, 1)), totals(4096, 0.1), 0.1)
    assert found["parameters"] == {"ranks": "5", "scale": "1", "seed": "1"}


def test_a_kernels_steps_are_judged_by_what_the_gpu_said_they_took() -> None:
    records = Records.build(
        Files.of({"a": 1 << 20}), offset=np.arange(3) * 4096, length=4096, chain=np.zeros(3, int), prefetch=1,
        compute_ns=10 * MS,
    )  # fmt: skip
    # Steps of 10 ms took 12 each; the third one waited 6 ms for its data.
    window = times((0, 0, 5, 5, 12), (5, 5, 15, 17, 12), (17, 17, 35, 35, 12))
    found = replayed(as_set(records, deciding="utilization"), window, totals(12288, 0.05), 0.1, (10.0 * MS, 10.2 * MS))
    stalled = found["stall"]
    assert stalled is not None
    # Two steps as they take alone, over the time behind the first one.
    assert stalled["utilization"] == pytest.approx(2 * 10.1 / (47 - 17))
    assert stalled["stall_s"] == pytest.approx(0.006)
    kernel = stalled["kernel"]
    assert (kernel["step_ns"], kernel["given_s"], kernel["took_s"]) == (10 * MS, 0.03, 0.036)
    assert kernel["alone_ns"] == pytest.approx(10.1 * MS)
    assert kernel["alone_drift"] == pytest.approx(1.02)
    assert kernel["stretch"] == pytest.approx(1.2 / 1.01)


def test_without_a_kernel_nothing_is_said_of_one() -> None:
    records = Records.build(Files.of({"a": 1 << 20}), offset=[0], length=4096, compute_ns=MS)
    found = replayed(as_set(records), times((0, 0, 5, 5)), totals(4096, 0.05), 0.1)
    assert found["stall"] is not None
    assert "kernel" not in found["stall"]


@pytest.mark.parametrize(
    ("chains", "ranks", "computing", "gpus", "expected"),
    [
        (1, 1, (0,), 1, 3 * MS),
        (1, 1, (0,), 0, 0),
        (2, 1, (0, 1), 1, 0),
        (2, 1, (1,), 1, 3 * MS),
        (2, 2, (0, 1), 2, 3 * MS),
        (2, 2, (0, 1), 1, 0),
        (2, 2, (), 2, 0),
    ],
)
def test_kernels_compute_only_where_none_competes_with_another(chains, ranks, computing, gpus, expected) -> None:
    records = Records.build(
        Files.of({"a": 1 << 20}), offset=np.arange(chains) * 4096, length=4096, chain=np.arange(chains),
        rank=np.arange(chains) if ranks > 1 else np.zeros(chains, int),
        compute_ns=[3 * MS if chain in computing else 0 for chain in range(chains)],
    )  # fmt: skip
    assert kernel_step(as_set(records), gpus) == expected


def test_ranks_take_the_gpus_in_turn() -> None:
    cell = SimpleNamespace(gpus=2, jobs=3, workload="inference/mine")
    assert model_gpus(cell, (), 3) == (0, 0, 0, 1, 1, 1, 0, 0, 0)
    assert model_gpus(cell, (5, 7, 8), 2) == (5, 5, 5, 7, 7, 7)
    assert model_gpus(SimpleNamespace(gpus=0, jobs=3), (), 2) == ()
    with pytest.raises(CapabilityMissing, match="use --gpuio-gpus=1 instead of 2"):
        model_gpus(cell, (), 1)


def test_first_tokens_wait_for_fetches_alone_and_their_share_is_told() -> None:
    records = Records.build(
        Files.of({"a": 1 << 20}),
        offset=np.arange(3) * 4096,
        length=4096,
        op=[0, WRITE, 0],
        stage=[0, 1, 0],
        stages=("fetch", "offload"),
        apart_ns=[30 * MS, -1, 20 * MS],
    )
    found = replayed(as_set(records), times((0, 0, 10, 10), (0, 0, 90, 90), (0, 0, 40, 40)), totals(12288, 0.1), 0.5)
    # The write of 90 ms is nobody's wait: p99 is that of the two fetches.
    assert found["completion"]["groups"] == 2
    assert found["deciding"]["value"] == pytest.approx(0.040)
    # 50 ms of fetching in 100 ms of waiting; 10/40 and 40/60 each.
    assert found["completion"]["ttft_share"] == pytest.approx(0.5)
    assert found["completion"]["ttft_share_p50"] == pytest.approx((10 / 40 + 40 / 60) / 2)
    assert found["completion"]["stages"]["offload"]["p99_ns"] == 90 * MS
    assert found["completion"]["stages"]["fetch"]["groups"] == 2


def test_what_saves_in_the_background_cost_the_steps() -> None:
    """Two ranks, three saves, 50 ms of steps after each, a copy of 5 ms ahead of each."""
    records = Records.build(
        Files.of({"a": 1 << 20}), offset=np.arange(6) * 4096, length=4096, op=WRITE, chain=[0, 1] * 3, rank=[0, 1],
        prefetch=1, compute_ns=50 * MS, apart_ns=5 * MS,
    )  # fmt: skip
    window = times(
        (0, 0, 30, 30), (0, 0, 20, 20),
        (30, 30, 60, 80), (20, 20, 100, 100),  # rank 1: 80 ms of writing, 30 ms longer than the steps
        (80, 80, 120, 130), (100, 100, 160, 160),  # and 60 ms, 10 ms longer
    )  # fmt: skip
    found = replayed(as_set(records, deciding="stall"), window, totals(24576, 0.2), 0.5)
    assert found["background"]["snapshot_s"] == pytest.approx(0.005)
    # Rank 1 waited 30 and 10 ms in the two intervals, and each save began with a copy.
    assert found["background"]["stall_s"] == pytest.approx(0.005 + 0.020)
    # Slowest rank of each save: 30, 80 and 60 ms.
    assert found["background"]["durable_s"] == pytest.approx(0.005 + 0.060)
    assert found["deciding"] == {"metric": "stall", "value": pytest.approx(0.025), "unit": "s", "better": "lower"}


def test_how_late_timed_groups_began() -> None:
    records = Records.build(Files.of({"a": 1 << 20}), offset=np.arange(4) * 4096, length=4096, time_ns=[0, 5, 9, 9])
    window = np.array(
        [[(0, 0, 9, 9), (5, 900_005, 10**6, 10**6), (9, 2_000_009, 3 * MS, 3 * MS), (9, 9, 99, 99)]], np.uint64
    )
    found = replayed(as_set(records), window, totals(16384, 0.1), 0.1)
    assert found["lag"] == {
        "groups": 4, "p50_ns": 0, "p99_ns": 2_000_000, "max_ns": 2_000_000, "within_1ms": 0.75,
    }  # fmt: skip
