"""Which CPUs served the target's interrupts during the measured stretch, and interrupt time outside of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_gpuio.machine.reading import slurp

if TYPE_CHECKING:
    from pytest_gpuio.measure.host import HostTimes


def read(prefixes: Sequence[str], root: str = "/") -> dict[str, tuple[int, ...]] | None:
    """Counts per CPU of the interrupt lines whose name starts with one of ``prefixes``; None when none is found."""
    wanted = tuple(prefixes)
    cpus, lines = _table(root) if wanted else ((), [])
    found: dict[str, tuple[int, ...]] = {}
    for line in lines:
        if not line.rstrip().rpartition(" ")[2].startswith(wanted):
            continue
        words = line.split()
        if len(words) > len(cpus) + 1:
            counts = words[1 : len(cpus) + 1]
            if all(word.isdigit() for word in counts):
                found[words[0]] = tuple(int(word) for word in counts)
    return found or None


def serving_cpus(
    before: Mapping[str, Sequence[int]] | None, after: Mapping[str, Sequence[int]] | None, root: str = "/"
) -> tuple[int, ...] | None:
    """CPU numbers whose count grew, or None when unknown."""
    if before is None or after is None:
        return None
    cpus, _ = _table(root)
    grown = {
        cpu
        for irq, counts in after.items()
        for cpu, old, new in zip(cpus, before.get(irq, ()), counts, strict=False)
        if new > old
    }
    return tuple(sorted(grown))


def _table(root: str) -> tuple[tuple[int, ...], list[str]]:
    """CPU numbers of the columns, and the lines of interrupts."""
    header, _, rest = (slurp(f"{root.rstrip('/')}/proc/interrupts") or "").partition("\n")
    return tuple(int(word[3:]) for word in header.split()), rest.splitlines()


def total(before: Mapping[str, Sequence[int]] | None, after: Mapping[str, Sequence[int]] | None) -> int | None:
    """Interrupts of all lines over the stretch, or None when unknown."""
    if before is None or after is None:
        return None
    return sum(sum(counts) - sum(before.get(irq, ())) for irq, counts in after.items())


def seconds_outside_tasks(
    before: HostTimes | None, after: HostTimes | None, *, accounted: bool | None, serving: Sequence[int] | None
) -> tuple[float | None, float | None, str | None]:
    """Hard and soft interrupt time that no task's clock holds.

    Args:
        before: the host at the stretch's begin.
        after: the same at its end.
        accounted: the kernel keeps interrupts out of task time (IRQ_TIME_ACCOUNTING); None = unknown.
        serving: CPUs that served the target's interrupts; None or empty = unknown, and all CPUs are taken.

    Returns:
        Hard and soft interrupt seconds, and a sentence: whose they are; or why they are None.
    """
    if accounted is None:
        return None, None, "unknown: the kernel's configuration cannot be read, interrupts may be inside task time"
    if not accounted:
        return None, None, "already inside task time (no IRQ_TIME_ACCOUNTING)"
    if before is None or after is None:
        return None, None, "unknown: /proc/stat cannot be read"
    cpus = [cpu for cpu in serving or after.interrupts if cpu in before.interrupts and cpu in after.interrupts]
    hard = sum(after.interrupts[cpu][0] - before.interrupts[cpu][0] for cpu in cpus)
    soft = sum(after.interrupts[cpu][1] - before.interrupts[cpu][1] for cpu in cpus)
    whose = f"of CPUs {', '.join(map(str, cpus))}, which served the target" if serving else "of all CPUs"
    return max(hard, 0.0), max(soft, 0.0), whose
