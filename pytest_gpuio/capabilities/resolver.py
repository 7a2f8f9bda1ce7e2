"""Resolve capability names to "yes" or one sentence with the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from pytest_gpuio.capabilities.probes import CAPABILITIES
from pytest_gpuio.core.errors import ConfigError

#: Asks a child: (capability name, target directory or None) -> None (has it) or the sentence.
Probe = Callable[[str, str | None], str | None]


class Resolver:
    """Caches one answer per capability and, for those of a target, per target.

    Args:
        probe: runs the real probe, in a child and under a deadline.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._known: dict[tuple[str, str | None], str | None] = {}

    def reason(self, name: str, target: str | None = None) -> str | None:
        """None when the capability is there, else why not and what to do.

        Raises:
            ConfigError: no such capability.
        """
        capability = CAPABILITIES.get(name)
        if capability is None:
            near = difflib.get_close_matches(name, CAPABILITIES, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(CAPABILITIES)}."
            raise ConfigError(f"unknown capability {name!r}: {hint}")
        for parent in capability.parents:
            reason = self.reason(parent, target)
            if reason is not None:
                return reason
        key = (name, target if capability.per_target else None)
        if key not in self._known:
            self._known[key] = self._probe(name, key[1])
        return self._known[key]
