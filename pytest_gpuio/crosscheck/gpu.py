"""Experiments on the way into GPU memory: copies against the wire, cuFile, KvikIO, and the same cell in host memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pytest_gpuio import datapaths
from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.crosscheck.claims import Claim, Experiment, Row
from pytest_gpuio.crosscheck.lab import Lab, Place, PlaceName
from pytest_gpuio.crosscheck.ours import for_seconds
from pytest_gpuio.crosscheck.pair import Turn, run_pairs
from pytest_gpuio.crosscheck.side import Side
from pytest_gpuio.crosscheck.verdict import Target, noise_floor
from pytest_gpuio.machine import affinity
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.prepare import choose_cpus

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
#: Of the asynchronous paths on the loop device: its one kernel thread pays for each time that it wakes a worker up, and
#: for each time that a GPU reads what it has in its caches. The second one for requests of 1 MiB.
_BATCH: Final = 16
_LARGE_BATCH: Final = 8
#: More than the processor's caches hold; and less, for a loop device: the shorter its thread copies, the less does that
#: hide of what each way through it costs.
_BYTES: Final = 1 << 30
_CACHED_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class _Cell:
    """One side; ``gpu``: its bytes end in the memory of GPU 0, else in host memory; ``batch``: requests per call."""

    datapath: str
    bs: int
    qd: int = 1
    jobs: int = 1
    gpu: bool = True
    batch: int = 1

    def __str__(self) -> str:
        batch = f" b{self.batch}" if self.batch > 1 else ""
        return f"{self.datapath} {'GPU' if self.gpu else 'host'} {self.bs // _KIB}k qd{self.qd}{batch} j{self.jobs}"


@dataclass(frozen=True, slots=True)
class _Race:
    """Two cells on ``size`` bytes, and the claims that the ratios of their figures (see :meth:`Side.figure`) answer."""

    place: PlaceName
    size: int
    ours: _Cell
    theirs: _Cell
    claims: tuple[tuple[Claim, str], ...]


def _claim(name: str, title: str, relation: str, value: float, unit: str) -> Claim:
    return Claim(name, title, unit, Target("<=" if relation == "<=" else ">=", value))


def _pair(
    name: str,
    place: PlaceName,
    ours: _Cell,
    theirs: _Cell,
    rate: float,
    cpu: float | None,
    against: str,
    size: int = _BYTES,
) -> _Race:
    """A race by throughput and, with ``cpu``, by CPU seconds a byte."""
    claims = [(_claim(name, f"{ours} on {place}, GiB/s", ">=", rate, against), "bytes_per_s")]
    if cpu is not None:
        claims.append((_claim(f"{name}-cpu", "... CPU s/GiB", "<=", cpu, against), "cpu_told"))
    return _Race(place, size, ours, theirs, tuple(claims))


_LONG: Final = _Cell("null", 256 * _MIB, 2)
_RACES: Final = (
    *(
        _pair(f"h2d-{mib}m", "none", _Cell("null", mib * _MIB, 8), _LONG, 0.95, None, "x 256 MiB copies")
        for mib in (1, 4)
    ),
    _pair(
        "tmpfs-cufile-8",
        "tmpfs",
        _Cell("psync", _MIB, jobs=8),
        _Cell("gds_compat", _MIB, jobs=8),
        1.4,
        1.0,
        "x cuFile compat",
    ),
    *(
        _pair(
            f"tmpfs-kvikio-{threads}",
            "tmpfs",
            _Cell("psync", _MIB, jobs=threads),
            _Cell("kvikio", _MIB, qd=threads),
            1.05,
            1.0,
            "x KvikIO",
        )
        for threads in (8, 16)
    ),
    *(
        _pair(
            f"loop-{bs // _KIB}k-{path}",
            "loop_ext4",
            _Cell(path, bs, 32, batch=_BATCH),
            _Cell("gds_compat", bs, jobs=8),
            rate,
            cpu,
            "x cuFile compat",
            _CACHED_BYTES,
        )
        for bs, rate, cpu in ((64 * _KIB, 1.2, 0.5), (4 * _KIB, 1.0, 0.4))
        for path in ("libaio", "io_uring")
    ),
    *(
        _pair(
            f"staging-{path}",
            "loop_ext4",
            _Cell(path, _MIB, 32, batch=_LARGE_BATCH),
            _Cell(path, _MIB, 32, gpu=False, batch=_LARGE_BATCH),
            0.9,
            None,
            "x host memory",
        )
        for path in ("libaio", "io_uring")
    ),
)


def _plan(lab: Lab, cell: _Cell, place: Place) -> Plan:
    path = datapaths.get(cell.datapath)
    for name in (*path.needs, "cuda"):
        reason = lab.ours.ask(f"probe-{path.family}", "probe", {"name": name, "target": place.path}, deadline_s=60.0)
        if reason is not None:
            raise CapabilityMissing(f"{cell.datapath} needs {name}: {reason}")
    changes: dict[str, Any] = {
        "jobs": cell.jobs,
        "cpus": choose_cpus(cell.jobs, affinity()),
        "cufile": path.cufile,
        "gpus": (0,) * cell.jobs if cell.gpu else (),
    }
    return for_seconds(lab.plan(path, place, qd=cell.qd, bs=cell.bs, batch=cell.batch, **changes), lab.settings.seconds)


def _run(race: _Race, lab: Lab) -> Sequence[Row]:
    with lab.place(race.place, race.size) as place:
        plans = {cell: _plan(lab, cell, place) for cell in (race.ours, race.theirs)}

        def measure(cell: _Cell) -> Side:
            # A child for each library and for host memory: what one of them starts is no part of the CPU of another.
            family = f"{datapaths.get(cell.datapath).family}-{'gpu' if cell.gpu else 'host'}"
            return lab.ours.measure(plans[cell], family).side

        def told(number: int, turn: Turn) -> None:
            lab.say(f"{race.claims[0][0].name}: pair {number + 1} of {lab.settings.pairs}, {turn}")

        found = run_pairs(partial(measure, race.ours), partial(measure, race.theirs), lab.settings.pairs, told)
    lab.interrupted = found.interrupted
    rows = []
    for claim, figure in race.claims:
        ours, theirs = found.side("ours", figure), found.side("theirs", figure)
        notes = []
        if ours is not None and theirs is not None:
            notes.append(f"{race.ours}: {_shown(ours.median, figure, race.ours.bs)}")
            notes.append(f"{race.theirs}: {_shown(theirs.median, figure, race.theirs.bs)}")
        pairs = [[side.to_json() for side in (pair.ours, pair.theirs, pair.again)] for pair in found.done]
        floor = noise_floor(found.self_ratios(figure))
        rows.append(claim.of_ratio(found.spread(figure), floor, notes, {"pairs": pairs}))
    return rows


def _shown(value: float, figure: str, bs: int) -> str:
    if figure == "cpu_told":
        return f"{value / bs * 2**30:.3f} CPU s/GiB"
    return f"{value / 2**30:.2f} GiB/s"


EXPERIMENTS: Final = tuple(Experiment(tuple(claim for claim, _ in race.claims), partial(_run, race)) for race in _RACES)
