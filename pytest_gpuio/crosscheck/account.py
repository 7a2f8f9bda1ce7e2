"""Experiments on the CPU account: how much of what the machine spent can be named, and what fio said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pytest_gpuio import datapaths
from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.crosscheck import fio as fio_tool
from pytest_gpuio.crosscheck.claims import Claim, Experiment, Row
from pytest_gpuio.crosscheck.fio_job import fio_job
from pytest_gpuio.crosscheck.lab import Lab, PlaceName
from pytest_gpuio.crosscheck.ours import for_seconds
from pytest_gpuio.crosscheck.side import Side
from pytest_gpuio.crosscheck.verdict import Spread, Target
from pytest_gpuio.measure.host import LEAST_CONTROL_S
from pytest_gpuio.measure.plan import Plan

_RUNS: Final = 3
#: Runs at most until so many are good for a verdict.
_TRIES: Final = 9
#: Of the CPU seconds that the machine spent: what the hypervisor takes beyond it spoils a run. What it takes from a CPU
#: that is about to wake up is idle time, too, and so it is missing from the truth.
_MOST_STOLEN: Final = 0.01
#: A little more than the least, so that windows that end early do not make it too short.
_SECONDS: Final = LEAST_CONTROL_S + 0.5


@dataclass(frozen=True, slots=True)
class _Audit:
    claim: Claim
    datapath: str
    place: PlaceName
    qd: int


def _claim(name: str, title: str, limit: float | None) -> Claim:
    return Claim(name, title, "%", None if limit is None else Target("<=", limit))


_AUDITS: Final = (
    _Audit(_claim("cpu-sqpoll", "CPU not attributed: SQPOLL QD 32 loop", 2.0), "io_uring_sqpoll", "loop", 32),
    _Audit(_claim("cpu-libaio", "CPU not attributed: libaio QD 32 loop", 3.0), "libaio", "loop", 32),
    _Audit(_claim("cpu-io_uring", "CPU not attributed: io_uring QD 32 loop", 3.0), "io_uring", "loop", 32),
    _Audit(_claim("cpu-disk-libaio", "CPU not attributed: libaio QD 32 disk", 6.0), "libaio", "disk", 32),
    _Audit(_claim("cpu-disk", "CPU not attributed: io_uring QD 32 disk", 6.0), "io_uring", "disk", 32),
    _Audit(_claim("cpu-psync", "CPU not attributed: psync QD 1 loop", None), "psync", "loop", 1),
    _Audit(_claim("cpu-disk-psync", "CPU not attributed: psync QD 1 disk", None), "psync", "disk", 1),
)


def _run(audit: _Audit, lab: Lab) -> Sequence[Row]:
    wanted, most = (1, 1) if lab.settings.quick else (_RUNS, _TRIES)
    controls: list[Mapping[str, Any]] = []
    with lab.place(audit.place) as place:
        plan = for_seconds(lab.plan(datapaths.get(audit.datapath), place, qd=audit.qd), _SECONDS)
        while len(controls) < most and sum(map(_undisturbed, controls)) < wanted:
            lab.say(f"{audit.claim.name}: run {len(controls) + 1}")
            account = lab.ours.measure(plan).outcome["cpu"]
            controls.append({**account["control"], "steal_s": account["steal_s"] or 0.0})
            if not controls[-1]["trusted"]:
                return [audit.claim.not_measurable(str(controls[-1]["reason"]))]
        told = _by_fio(lab, plan)
    good = list(filter(_undisturbed, controls))
    if len(good) < wanted:
        took = sum(control["steal_s"] for control in controls) / sum(control["seconds"] for control in controls)
        return [
            audit.claim.failed(
                f"the hypervisor took {took:.2f} cores: {len(good)} of {len(controls)} runs had their own"
            )
        ]
    spread = Spread.of(abs(control["unattributed_share"]) * 100 for control in good)
    reason = "; ".join((_ours(good[-1]), told))
    return [audit.claim.of_figures(spread, reason, {"controls": controls})]


def _undisturbed(control: Mapping[str, Any]) -> bool:
    return bool(control["steal_s"] <= _MOST_STOLEN * control["truth_s"])


def _ours(control: Mapping[str, Any]) -> str:
    seconds = control["seconds"]
    elsewhere = ", ".join(f"{name} {spent / seconds:.2f}" for name, spent in control["elsewhere"].items())
    idle = control["no_task_s"]
    no_task = (
        "; this kernel keeps no sum of its tasks' time, so interrupts that met an idle CPU are not attributed"
        if idle is None
        else f", in no task {idle / seconds:.3f} (interrupts that met an idle CPU)"
    )
    return (
        f"over {seconds:.1f} s the machine spent {control['truth_s'] / seconds:.2f} cores, of which ours "
        f"{control['parts_s'] / seconds:.2f}, elsewhere {control['elsewhere_s'] / seconds:.2f} ({elsewhere}){no_task}"
    )


def _by_fio(lab: Lab, plan: Plan) -> str:
    """What fio said of the same cell, beside what the machine spent; a sentence."""
    try:
        fio = lab.fio
    except CapabilityMissing as error:
        return str(error)
    job = fio_job(plan, _SECONDS)
    avoid = [cpu for cpu in (*plan.cpus, *plan.sq_cpus) if cpu >= 0]
    side: Side = fio_tool.run(
        fio, job.arguments, seconds=job.seconds, jobs=job.jobs, environment=job.environment, avoid=avoid
    )
    seen = side.observed
    machine = "unknown" if seen is None or seen.host_cores is None else f"{seen.host_cores:.2f}"
    return f"fio said {side.cores_told:.2f} cores where the machine spent {machine}"


EXPERIMENTS: Final = tuple(Experiment((audit.claim,), partial(_run, audit)) for audit in _AUDITS)
