"""Capabilities: named facts about machine or target that a cell needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capability:
    """A named fact that a probe can confirm or explain away.

    Attributes:
        name: short name used in marks and in ``--gpuio-require``.
        title: what it means, for people.
        parents: names of capabilities that must hold first; their reason is reported instead.
        per_target: the probe needs the target's directory, not just the machine.
        deadline_s: seconds the probe may take; the first of a child waits for imports too, which take 20 s on a slow
            machine with cold files, and above 60 s where it has an eighth of a CPU (tried under emulation).
        family: the measuring child that is asked: what opens a driver must not do so beside another driver's settings.
    """

    name: str
    title: str
    parents: tuple[str, ...] = ()
    per_target: bool = False
    family: str = "probe"
    deadline_s: float = 120.0
