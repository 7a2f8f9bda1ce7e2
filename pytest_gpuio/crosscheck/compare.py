"""One cell by both tools: the pairs, and what may be said about them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_gpuio.crosscheck.fio import Fio, run
from pytest_gpuio.crosscheck.fio_job import FioJob, fio_job
from pytest_gpuio.crosscheck.known_faults import Fault, applying
from pytest_gpuio.crosscheck.ours import Measured, Ours, for_seconds
from pytest_gpuio.crosscheck.pair import Pairs, Turn, run_pairs
from pytest_gpuio.crosscheck.side import Side
from pytest_gpuio.crosscheck.verdict import MOST_FOREIGN, Spread, noise_floor
from pytest_gpuio.measure.plan import Plan

#: Figures compared, in order, with the unit of the raw value.
FIGURES: Final[Mapping[str, str]] = {
    "iops": "1/s",
    "bytes_per_s": "bytes/s",
    "lat_mean": "ns",
    "lat_p50": "ns",
    "lat_p99": "ns",
    "lat_p999": "ns",
    "cores_told": "CPU s per s",
    "cores_process": "CPU s per s",
    "cores_host": "CPU s per s",
    "cpu_told": "CPU s per I/O",
    "cpu_process": "CPU s per I/O",
    "cpu_host": "CPU s per I/O",
}
#: Gets one line of progress.
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A cell by both tools.

    Attributes:
        plan: ours. job: fio's. fio: which one.
        pairs: the runs. faults: of fio's numbers, that apply here.
        last: our last run, with everything observed; None when none was finished.
    """

    plan: Plan
    job: FioJob
    fio: Fio
    pairs: Pairs
    faults: tuple[Fault, ...]
    last: Measured | None

    def foreign(self) -> Spread | None:
        """Share of the machine's CPUs that strangers used, over all runs."""
        return foreign(self.pairs)

    def to_json(self) -> dict[str, Any]:
        """JSON-able values, raw units."""
        figures, strangers = {}, self.foreign()
        for name, unit in FIGURES.items():
            figures[name] = {
                "unit": unit,
                "ours": _spread(self.pairs.side("ours", name)),
                "fio": _spread(self.pairs.side("theirs", name)),
                "ratio": _spread(self.pairs.spread(name)),
                "noise_floor": noise_floor(self.pairs.self_ratios(name)),
            }
        return {
            "fio": {"path": self.fio.path, "version": self.fio.name},
            "plan": self.plan.to_params(),
            "fio_arguments": list(self.job.arguments),
            "fio_environment": dict(self.job.environment),
            "unmatched": list(self.job.unmatched),
            "known_faults": [{"name": fault.name, "sentence": fault.sentence} for fault in self.faults],
            "figures": figures,
            "foreign_share": _spread(strangers),
            "disturbed": disturbed(None if strangers is None else strangers.median),
            "interrupted": self.pairs.interrupted,
            "pairs": [
                {"ours": pair.ours.to_json(), "fio": pair.theirs.to_json(), "fio_again": pair.again.to_json()}
                for pair in self.pairs.done
            ],
        }


def compare(
    plan: Plan,
    ours: Ours,
    fio: Fio,
    *,
    pairs: int,
    seconds: float,
    say: Say,
    huge_buffers: bool = True,
) -> Comparison:
    """Runs a plan by both tools in interleaved pairs.

    Args:
        plan: the cell; its time limits are replaced by ``seconds``.
        ours: our tool.
        fio: the other.
        pairs: how many.
        seconds: timed part of each run.
        say: progress.
        huge_buffers: see :func:`fio_job`.

    Raises:
        ConfigError: fio has nothing comparable.
        CellVoid, FioError, ChildDied: a run failed.
    """
    plan = for_seconds(plan, seconds)
    job = fio_job(plan, seconds, huge_buffers=huge_buffers)
    last: list[Measured] = []

    def run_ours() -> Side:
        last[:] = [ours.measure(plan)]
        return last[0].side

    def run_fio() -> Side:
        return run(
            fio,
            job.arguments,
            seconds=job.seconds,
            jobs=job.jobs,
            environment=job.environment,
            avoid=[cpu for cpu in (*plan.cpus, *plan.sq_cpus) if cpu >= 0],
        )

    def turn(number: int, who: Turn) -> None:
        name = {"ours": "gpuio", "theirs": "fio", "again": "fio again"}[who]
        say(f"pair {number + 1}/{pairs}: {name}")

    done = run_pairs(run_ours, run_fio, pairs, turn)
    return Comparison(plan, job, fio, done, applying(plan, fio.version), last[0] if last else None)


def foreign(pairs: Pairs) -> Spread | None:
    """Share of the machine's CPUs that strangers used, over all runs."""
    cpus = os.cpu_count() or 1
    seen = [
        side.observed.strangers
        for pair in pairs.done
        for side in (pair.ours, pair.theirs, pair.again)
        if side.observed is not None
    ]
    return Spread.of(strangers / cpus for strangers in seen if strangers is not None)


def disturbed(share: float | None) -> str | None:
    """One sentence when strangers used more of the CPUs than a comparison allows, else None."""
    if share is None or share < MOST_FOREIGN:
        return None
    return f"strangers used {share:.0%} of the CPUs, {MOST_FOREIGN:.0%} are allowed"


def _spread(spread: Spread | None) -> dict[str, float] | None:
    if spread is None:
        return None
    return {"median": spread.median, "low": spread.low, "high": spread.high, "count": spread.count}
