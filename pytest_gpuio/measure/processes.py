"""The CPU of all processes of the host, by name: those that live, and those that ended meanwhile."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pytest_gpuio.engine import process_clocks
from pytest_gpuio.machine.reading import slurp

#: Names told apart; the rest is one sum.
_NAMED: Final = 8
#: CPU seconds that are worth a name.
_WORTH_A_NAME_S: Final = 0.001
_KERNEL_THREAD: Final = 0x00200000  # PF_KTHREAD
_TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Kin:
    """A process's parent, and the CPU nanoseconds of its children that ended and were waited for, theirs included."""

    parent: int
    children_ns: int


@dataclass(frozen=True, slots=True)
class Census:
    """CPU nanoseconds of every process by id, threads that ended included, and the kin of those not the kernel's."""

    clocks: Mapping[int, int]
    kin: Mapping[int, Kin] = field(default_factory=dict)


def clocks(pids: Iterable[int]) -> dict[int, int]:
    """CPU nanoseconds of these processes by id, threads that ended included; kernel threads are processes, too."""
    found: dict[int, int] = {}
    for pid in pids:
        try:
            # CPUCLOCK_SCHED of a process, as clock_getcpuclockid() makes it: one call instead of a file per thread.
            found[pid] = time.clock_gettime_ns((~pid << 3) | 2)
        except OSError:
            continue  # it ended
    return found


def count(*, ended: bool) -> Census:
    """Look at every process.

    Args:
        ended: also read what is needed to find the CPU of processes that end before the next look: a file for each.
    """
    found = process_clocks()
    if not ended:
        return Census(found)
    kin: dict[int, Kin] = {}
    for pid in found:
        relation = parse_stat((slurp(f"/proc/{pid}/stat") or "").encode())
        if relation is not None:
            kin[pid] = relation
    return Census(found, kin)


def parse_stat(text: bytes) -> Kin | None:
    """The kin in a line of ``/proc/PID/stat``; None for threads of the kernel."""
    # The name may hold blanks and parentheses; the last one ends it.
    words = text.rpartition(b")")[2].split()
    if len(words) < 15 or int(words[6]) & _KERNEL_THREAD:
        return None
    return Kin(int(words[1]), (int(words[13]) + int(words[14])) * _TICK_NS)


def called_bytes() -> int | None:
    """Bytes that this process's read and write calls have moved; None where the kernel does not count them."""
    found = re.findall(r"^[rw]char: (\d+)$", slurp("/proc/self/io") or "", re.MULTILINE)
    return sum(map(int, found)) if found else None


def growth(before: int | None, after: int | None) -> int | None:
    """What a count grew by; None where it is unknown at one of the two looks."""
    return None if before is None or after is None else after - before


def process_name(pid: int) -> str:
    """Name of a process; ``ended`` when it is gone."""
    name = slurp(f"/proc/{pid}/comm")
    return "ended" if name is None else name.strip()


def group_name(name: str) -> str:
    """Name without what tells CPUs and pools apart: ``kworker/u8:2+loop0`` is ``kworker loop0``.

    A worker of the kernel's pools serves many queues and is named after the one it works for, or last worked for.
    """
    worker = re.fullmatch(r"kworker/[^-+]*(?:[-+](.+))?", name)
    if worker:
        return f"kworker {worker[1]}" if worker[1] else "kworker"
    return re.sub(r"/\d+$", "", name)


def elsewhere(before: Census, after: Census, ours: frozenset[int]) -> dict[str, float]:
    """CPU seconds of all processes but ours between two looks, by name, largest first; small ones are ``others``.

    Those that ended in between are ``NAME (ended children)`` of who waited for them; their own clock is gone.
    """
    spent: dict[str, float] = {}

    def add(name: str, seconds: float) -> None:
        spent[name] = spent.get(name, 0.0) + seconds

    for pid, now in after.clocks.items():
        then = before.clocks.get(pid, 0)
        seconds = (now - then if now >= then else now) / 1e9  # less: the id was given to a new process
        if pid not in ours and seconds > 0:
            add(group_name(process_name(pid)) if seconds >= _WORTH_A_NAME_S else "others", seconds)
    for pid, seconds in reaped(before, after).items():
        add(f"{group_name(process_name(pid))} (ended children)", seconds)
    small = spent.pop("others", 0.0)
    ranked = sorted(spent.items(), key=lambda item: item[1], reverse=True)
    small += sum(seconds for _, seconds in ranked[_NAMED:])
    return dict(ranked[:_NAMED]) | ({"others": small} if small > 0 else {})


def reaped(before: Census, after: Census) -> dict[int, float]:
    """CPU seconds between two looks of processes that ended meanwhile, by the id of who waited for them.

    A parent that waits for a child takes over its CPU and that of the child's own ended children, so nothing is lost
    as long as one ancestor lives. What a vanished process had used before the first look is no part of it. Steps of
    10 ms; a process whose parent ignores its end is in nobody's sum.
    """
    old: dict[int, int] = {}
    for pid, relation in before.kin.items():
        if pid in after.kin:
            continue
        heir, steps = relation.parent, 0
        while heir in before.kin and heir not in after.kin and steps < len(before.kin):
            heir, steps = before.kin[heir].parent, steps + 1
        old[heir] = old.get(heir, 0) + before.clocks.get(pid, 0) + relation.children_ns
    found: dict[int, float] = {}
    for pid, relation in after.kin.items():
        then = before.kin.get(pid)
        grown = relation.children_ns - (then.children_ns if then else 0) - old.get(pid, 0)
        if grown > 0:
            found[pid] = grown / 1e9
    return found
