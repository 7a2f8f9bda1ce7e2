"""Known faults of fio's own numbers, explained beside the numbers they touch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pytest_gpuio.measure.plan import Plan


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        name: short. sentence: what is wrong, and what to look at instead.
        applies: to this plan, run by this version of fio.
    """

    name: str
    sentence: str
    applies: Callable[[Plan, tuple[int, int]], bool]


def _polls_submission(plan: Plan) -> bool:
    return plan.engine in ("io_uring_sqpoll", "io_uring_full")


FAULTS: Final = (
    Fault(
        "sqpoll_clat",
        "fio 3.33 does not stamp the submission when a kernel thread polls for it: its clat is the time since the "
        "start of the job (hundreds of milliseconds to minutes). Its total latency `lat`, compared here, is right.",
        lambda plan, version: _polls_submission(plan) and version <= (3, 33),
    ),
    Fault(
        "rusage_thread",
        "fio counts the CPU of the submitting thread only (RUSAGE_THREAD): the kernel's polling thread is missing from "
        "usr_cpu and sys_cpu. Believe the process's own clock and /proc/stat beside it.",
        lambda plan, _version: _polls_submission(plan),
    ),
    Fault(
        "rusage_workers",
        "fio counts the CPU of the submitting thread only (RUSAGE_THREAD): workers of io_uring (iou-wrk) that the "
        "kernel starts for what would block are missing from usr_cpu and sys_cpu.",
        lambda plan, _version: plan.engine.startswith("io_uring") and not _polls_submission(plan),
    ),
    Fault(
        "registration_inside",
        "fio opens and registers files inside its timed window (at the first request); the ramp before it takes most "
        "of that away.",
        lambda plan, _version: plan.path is not None,
    ),
)


def applying(plan: Plan, version: tuple[int, int]) -> tuple[Fault, ...]:
    """The faults that touch this comparison."""
    return tuple(fault for fault in FAULTS if fault.applies(plan, version))
