"""Which CPUs served the target's interrupts during the measured stretch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def read(prefixes: Sequence[str], root: str = "/") -> dict[str, tuple[int, ...]] | None:
    """Counts per CPU of the interrupt lines whose name starts with one of ``prefixes``; None when none is found."""
    try:
        header, *lines = Path(root, "proc/interrupts").read_text().splitlines()
    except (OSError, ValueError):
        return None
    cpus = [int(word[3:]) for word in header.split()]
    found: dict[str, tuple[int, ...]] = {}
    for line in lines:
        words = line.split()
        name = words[-1] if words else ""
        if prefixes and name.startswith(tuple(prefixes)) and len(words) > len(cpus) + 1:
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
    header = Path(root, "proc/interrupts").read_text().splitlines()[0]
    cpus = [int(word[3:]) for word in header.split()]
    grown = {
        cpu
        for irq, counts in after.items()
        for cpu, old, new in zip(cpus, before.get(irq, ()), counts, strict=False)
        if new > old
    }
    return tuple(sorted(grown))
