"""Experiments against fio: requests per second and CPU per request on targets that add no noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pytest_gpuio import datapaths
from pytest_gpuio.crosscheck.claims import Claim, Experiment, Row
from pytest_gpuio.crosscheck.compare import Comparison, compare, disturbed
from pytest_gpuio.crosscheck.lab import Lab, PlaceName
from pytest_gpuio.crosscheck.verdict import Spread, Target, noise_floor


@dataclass(frozen=True, slots=True)
class _Race:
    """A cell by both tools, and the claims its figures answer.

    Attributes:
        claims: each with the figure (see :meth:`Side.figure`) whose ratio it is about; ``request_bytes`` stands for
            what the device saw of ours over the block size.
    """

    datapath: str
    place: PlaceName
    qd: int
    claims: tuple[tuple[Claim, str], ...]
    batch: int = 1
    bs: int = 4096
    huge_buffers: bool = True


def _claim(name: str, title: str, relation: str, value: float, unit: str = "x fio") -> Claim:
    return Claim(name, title, unit, Target("<=" if relation == "<=" else ">=", value))


_RACES: Final = (
    _Race("null", "none", 32, ((_claim("null-qd32", "null QD 32 IOPS", ">=", 4.0), "iops"),)),
    _Race("null", "none", 1, ((_claim("null-qd1", "null QD 1 IOPS", ">=", 2.0), "iops"),)),
    _Race(
        "psync",
        "zram",
        1,
        (
            (_claim("psync-zram", "psync QD 1 zram IOPS", ">=", 1.08), "iops"),
            (_claim("psync-zram-cpu", "psync QD 1 zram CPU/IO", "<=", 0.93), "cpu_process"),
        ),
    ),
    _Race("psync", "tmpfs", 1, ((_claim("psync-tmpfs", "psync QD 1 tmpfs O_DIRECT IOPS", ">=", 1.08), "iops"),)),
    _Race("libaio", "zram", 32, ((_claim("libaio-zram-b1", "libaio QD 32 zram batch 1 IOPS", ">=", 1.30), "iops"),)),
    _Race(
        "libaio",
        "zram",
        32,
        ((_claim("libaio-zram-b32", "libaio QD 32 zram batch 32 IOPS", ">=", 1.05), "iops"),),
        batch=32,
    ),
    _Race(
        "io_uring",
        "cached",
        32,
        ((_claim("io_uring-cached-b1", "io_uring QD 32 cached file batch 1 IOPS", ">=", 1.20), "iops"),),
    ),
    _Race(
        "io_uring",
        "cached",
        32,
        ((_claim("io_uring-cached-b32", "io_uring QD 32 cached file batch 32 IOPS", ">=", 1.20), "iops"),),
        batch=32,
    ),
    _Race(
        "libaio",
        "loop",
        32,
        ((_claim("libaio-loop-cpu", "libaio QD 32 loop CPU/IO", "<=", 0.85), "cpu_process"),),
    ),
    _Race(
        "io_uring",
        "loop",
        32,
        ((_claim("io_uring-loop-cpu", "io_uring QD 32 loop CPU/IO", "<=", 0.95), "cpu_process"),),
    ),
    _Race(
        "io_uring",
        "disk",
        8,
        (
            (_claim("disk-1m", "io_uring 1 MiB QD 8 disk GB/s, fio's default buffers", ">=", 1.5), "bytes_per_s"),
            (_claim("disk-1m-request", "... request size the device saw", ">=", 0.99, "x block"), "request_bytes"),
        ),
        bs=1 << 20,
        huge_buffers=False,
    ),
)


def _run(race: _Race, lab: Lab) -> Sequence[Row]:
    fio = lab.fio
    with lab.place(race.place) as place:
        plan = lab.plan(datapaths.get(race.datapath), place, qd=race.qd, bs=race.bs, batch=race.batch)
        found = compare(
            plan,
            lab.ours,
            fio,
            pairs=lab.settings.pairs,
            seconds=lab.settings.seconds,
            say=lambda line: lab.say(f"{race.claims[0][0].name}: {line}"),
            huge_buffers=race.huge_buffers,
        )
    lab.interrupted = found.pairs.interrupted
    strangers = found.foreign()
    noisy = disturbed(None if strangers is None else strangers.median)
    return [_row(claim, figure, found, noisy) for claim, figure in race.claims]


def _row(claim: Claim, figure: str, found: Comparison, noisy: str | None) -> Row:
    if figure == "request_bytes":
        device = None if found.last is None else found.last.totals.device
        if device is None:
            return claim.not_measurable("the block layer has no counters here")
        share = device.request_bytes / found.plan.bs
        reason = f"requests of {device.request_bytes:,.0f} bytes, block {found.plan.bs:,}"
        return claim.of_figures(Spread.of([share]), reason)
    ours, theirs = found.pairs.side("ours", figure), found.pairs.side("theirs", figure)
    notes = [] if ours is None or theirs is None else [f"ours {_shown(figure, ours)}, fio {_shown(figure, theirs)}"]
    per_cpu = found.pairs.per_cpu_second()
    if figure == "iops" and per_cpu is not None:
        notes.append(f"per CPU second {per_cpu}")
    floor = noise_floor(found.pairs.self_ratios(figure))
    return claim.of_ratio(found.pairs.spread(figure), floor, notes, found.to_json(), disturbed=noisy)


def _shown(figure: str, spread: Spread) -> str:
    match figure:
        case "iops":
            return f"{spread.median:,.0f}/s"
        case "bytes_per_s":
            return f"{spread.median / 1e9:.2f} GB/s"
        case _:
            return f"{spread.median * 1e9:,.0f} ns"


EXPERIMENTS: Final = tuple(Experiment(tuple(claim for claim, _ in race.claims), partial(_run, race)) for race in _RACES)
