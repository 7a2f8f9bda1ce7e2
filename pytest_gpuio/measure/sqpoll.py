"""How much of a submission poller's time was work, from the rings' fdinfo."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_gpuio.machine.reading import slurp


@dataclass(frozen=True, slots=True)
class Poller:
    """The kernel thread that polls for submissions; microseconds since it started, None where the kernel says nothing.

    Attributes:
        tid: the thread. cpu: where it last ran.
        total_us: CPU time. work_us: the part of it that had something to do.
    """

    tid: int
    cpu: int | None
    total_us: int | None
    work_us: int | None


def pollers(root: str = "/") -> dict[int, Poller]:
    """Submission pollers of this process's rings by thread id; empty when no ring has one."""
    found: dict[int, Poller] = {}
    base = f"{root.rstrip('/')}/proc/self"
    for entry in os.listdir(f"{base}/fd"):  # noqa: PTH208 - names only
        try:
            if os.readlink(f"{base}/fd/{entry}") != "anon_inode:[io_uring]":  # noqa: PTH115 - not a path
                continue
        except OSError:
            continue  # the listing's own descriptor
        poller = parse(slurp(f"{base}/fdinfo/{entry}") or "")
        if poller is not None:
            found[poller.tid] = poller
    return found


def parse(text: str) -> Poller | None:
    """The poller in a ring's fdinfo; None when it has none (or was busy: the kernel then says -1)."""
    numbers: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.startswith("Sq") and value.strip().lstrip("-").isdigit():
            numbers[name] = int(value)
    tid = numbers.get("SqThread", -1)
    if tid <= 0:
        return None
    return Poller(tid, numbers.get("SqThreadCpu"), numbers.get("SqTotalTime"), numbers.get("SqWorkTime"))


def useful_share(before: Mapping[int, Poller], after: Mapping[int, Poller]) -> tuple[float | None, str | None]:
    """Work over CPU time of all pollers between two looks, 0 to 1.

    Returns:
        The share, and None; or None and the reason.
    """
    if not after:
        return None, "no submission poller"
    total = work = 0
    for tid, now in after.items():
        then = before.get(tid)
        if now.total_us is None or now.work_us is None:
            return None, "this kernel does not tell a poller's work from its waiting (fdinfo has no SqWorkTime)"
        total += now.total_us - ((then.total_us or 0) if then else 0)
        work += now.work_us - ((then.work_us or 0) if then else 0)
    if total <= 0:
        return None, "the poller slept all the time"
    return min(max(work / total, 0.0), 1.0), None
