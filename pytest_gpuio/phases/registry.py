"""The registry of workloads: ours, and those that third parties add."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases import finetune, inference, micro, pretrain
from pytest_gpuio.phases.workload import Workload

_registry: Final[dict[str, Workload]] = {}
#: Every known workload by name, in the order of registration; a live, read-only view.
WORKLOADS: Final[Mapping[str, Workload]] = MappingProxyType(_registry)


def register(workload: Workload) -> None:
    """Adds a workload; an equal one that is already there is left alone (a plugin may be loaded twice).

    Raises:
        ConfigError: the name is taken by a different workload.
    """
    there = _registry.get(workload.name)
    if there is not None and there != workload:
        raise ConfigError(
            f"workload {workload.name!r} is registered already ({there.title!r}): give yours ({workload.title!r}) "
            "another name."
        )
    _registry[workload.name] = workload


def get(name: str) -> Workload:
    """The workload of exactly this name.

    Raises:
        ConfigError: there is none; the text lists near matches.
    """
    try:
        return _registry[name]
    except KeyError:
        raise ConfigError(f"workload {name!r} is unknown. {_suggest(name)}") from None


def match(patterns: Iterable[str]) -> tuple[Workload, ...]:
    """Workloads that any of the patterns (``micro/*``, ``inference/kv_fetch``) names, once each, in registry order.

    Raises:
        ConfigError: a pattern names no workload.
    """
    patterns = tuple(patterns)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in _registry):
            raise ConfigError(f"workload {pattern!r} matches none. {_suggest(pattern)}")
    return tuple(
        workload for name, workload in _registry.items() if any(fnmatchcase(name, pattern) for pattern in patterns)
    )


def _suggest(name: str) -> str:
    known = list(_registry)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if not near:  # the phase may have been left out: kv_fetch
        short = {workload.partition("/")[2]: workload for workload in known}
        near = [short[hit] for hit in difflib.get_close_matches(name, list(short), n=3, cutoff=0.6)]
    return f"Did you mean {' or '.join(near)}?" if near else f"Known are: {', '.join(known)}."


for _workload in (*pretrain.WORKLOADS, *finetune.WORKLOADS, *inference.WORKLOADS, *micro.WORKLOADS):
    register(_workload)
