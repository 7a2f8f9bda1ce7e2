"""The suite of claims about our own overhead: runs what is asked for, and never stops at a line that cannot be had."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from pytest_gpuio.core.errors import CapabilityMissing, ConfigError, GpuioError
from pytest_gpuio.crosscheck import account, bare, cost, gpu, open_loop, replays, scale, speed, sweeps
from pytest_gpuio.crosscheck.claims import Claim, Experiment, Row
from pytest_gpuio.crosscheck.compare import disturbed
from pytest_gpuio.crosscheck.lab import Lab, Settings
from pytest_gpuio.crosscheck.ours import Ours
from pytest_gpuio.crosscheck.truth import Strangers
from pytest_gpuio.machine import affinity

__all__ = ["SUITES", "Found", "Settings", "claims", "run"]

#: In the order of the table: what our own overhead may be.
EXPERIMENTS: Final[tuple[Experiment, ...]] = (
    *speed.EXPERIMENTS,
    *bare.EXPERIMENTS,
    *account.EXPERIMENTS,
    *cost.EXPERIMENTS,
    *scale.EXPERIMENTS,
    *sweeps.EXPERIMENTS,
    *open_loop.EXPERIMENTS,
    *replays.EXPERIMENTS,
)


#: Suites by name.
SUITES: Final[Mapping[str, tuple[Experiment, ...]]] = {"overhead": EXPERIMENTS, "gpu": gpu.EXPERIMENTS}


@dataclass(slots=True)
class Found:
    """What a run of the suite says; ``conditions`` is the sentence below the table."""

    conditions: str
    rows: list[Row] = field(default_factory=list)
    interrupted: bool = False

    def to_json(self) -> dict[str, Any]:
        """JSON-able values."""
        return {
            "conditions": self.conditions,
            "interrupted": self.interrupted,
            "rows": [row.to_json() for row in self.rows],
        }


def claims(name: str = "overhead") -> tuple[Claim, ...]:
    """Every claim of a suite, in the order of the table."""
    return tuple(claim for experiment in SUITES[name] for claim in experiment.claims)


def run(settings: Settings, say: Callable[[str], None], experiments: Sequence[Experiment] = EXPERIMENTS) -> Found:
    """Runs the experiments whose claims match; Ctrl-C ends it with what is done.

    Args:
        settings: see :class:`Settings`.
        say: progress.
        experiments: what there is.

    Raises:
        ConfigError: the pattern names no claim.
    """
    chosen = [
        experiment
        for experiment in experiments
        if any(fnmatchcase(claim.name, settings.only) for claim in experiment.claims)
    ]
    if not chosen:
        raise ConfigError(f"--only {settings.only!r} names no line of the suite: see --list.")
    found = Found("")
    load = os.getloadavg()[0]
    with Ours() as ours:
        lab = Lab(settings, ours, say)
        try:
            for experiment in chosen:
                rows = _rows(experiment, lab)
                found.rows += [row for row in rows if fnmatchcase(row.claim.name, settings.only)]
                if lab.interrupted:
                    found.interrupted = True
                    break
        except KeyboardInterrupt:
            found.interrupted = True
        found.conditions = _conditions(lab, load, gpu=experiments is gpu.EXPERIMENTS)
    return found


def _rows(experiment: Experiment, lab: Lab) -> Sequence[Row]:
    strangers = Strangers(lambda: lab.ours.pids)
    try:
        rows = experiment.run(lab)
    except CapabilityMissing as error:
        lab.say(f"{experiment.claims[0].name}: {error}")
        return [claim.not_measurable(str(error)) for claim in experiment.claims]
    except (GpuioError, OSError) as error:
        # One line that cannot be had must not cost those before it.
        lab.say(f"{experiment.claims[0].name}: {error}")
        return [claim.failed(str(error)) for claim in experiment.claims]
    noisy = disturbed(strangers.share())
    return [row.excused(noisy) for row in rows]


def _conditions(lab: Lab, load: float, *, gpu: bool) -> str:
    settings = lab.settings
    after = f"Load average before {load:.1f}, after {os.getloadavg()[0]:.1f}, on {len(affinity())} CPUs."
    if gpu:
        return (
            f"{settings.pairs} interleaved pairs of {settings.seconds:g} s per comparison, files in memory (tmpfs, and "
            "ext4 on a loop device over it), GPU 0. A ratio inside the noise floor (the other side against itself) is "
            f"not decided. CPU is of the measuring child, library threads included. {after}"
        )
    try:
        against = f"against {lab.fio}"
    except CapabilityMissing:
        against = "without fio"  # lines that need it say why there is none
    return (
        f"{settings.pairs} interleaved pairs of {settings.seconds:g} s per comparison, one worker pinned to one CPU, "
        f"{against}; files in {settings.folder}. A ratio inside the noise floor (a tool against itself) is not "
        f"decided. CPU per request is of the tool's process, read from outside. {after}"
    )
