"""The registry of workloads: ours, and those that third parties add."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from itertools import chain
from types import MappingProxyType
from typing import Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases import finetune, inference, micro, pretrain, workloads
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.parameter import parse_pairs
from pytest_gpuio.phases.workload import Workload

#: Both kinds: a stream that the engine generates, and a model that computes records.
AnyWorkload = Workload | RecordModel

_registry: Final[dict[str, AnyWorkload]] = {}
#: Every known workload by name, in the order of registration; a live, read-only view.
WORKLOADS: Final[Mapping[str, AnyWorkload]] = MappingProxyType(_registry)


def register(workload: AnyWorkload) -> None:
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


def get(name: str) -> AnyWorkload:
    """The workload of exactly this name, with the parameters it is spelled with: ``phase/name[ranks=8]``.

    Raises:
        ConfigError: there is none, the text lists near matches; or it has no such parameter or value.
    """
    bare, parameters = _parse(name)
    try:
        return _with(_registry[bare], parameters, name)
    except KeyError:
        raise ConfigError(f"workload {bare!r} is unknown. {_suggest(bare)}") from None


def match(patterns: Iterable[str]) -> tuple[AnyWorkload, ...]:
    """Workloads that any of the patterns names, once each, in registry order.

    Args:
        patterns: ``micro/*``, ``inference/kv_fetch``, and for record models also with parameters:
            ``pretrain/checkpoint_save[model=llama-3.1-70b]``.

    Raises:
        ConfigError: a pattern names no workload, or a workload has no such parameter or value.
    """
    parsed = [(pattern, *_parse(pattern)) for pattern in patterns]
    for pattern, bare, _ in parsed:
        if not any(_matches(workload, bare) for workload in _registry.values()):
            raise ConfigError(f"workload {pattern!r} matches none. {_suggest(bare)}")
    found: dict[str, AnyWorkload] = {}
    for workload in _registry.values():
        for pattern, bare, parameters in parsed:
            if _matches(workload, bare):
                chosen = _with(workload, parameters, pattern)
                found.setdefault(chosen.spelling, chosen)
    return tuple(found.values())


def _matches(workload: AnyWorkload, pattern: str) -> bool:
    if isinstance(workload, RecordModel) and workload.by_name:
        return workload.name == pattern
    return fnmatchcase(workload.name, pattern)


def with_parameters(workload: AnyWorkload, values: Mapping[str, str]) -> AnyWorkload:
    """A model with the parameters among ``values`` that it has and that its own spelling does not choose.

    Raises:
        ConfigError: a value that is none of the parameter's.
    """
    if not isinstance(workload, RecordModel):
        return workload
    has = {parameter.name for parameter in workload.all_parameters}.difference(name for name, _ in workload.chosen)
    return workload.with_values({name: text for name, text in values.items() if name in has})


def _parse(spelling: str) -> tuple[str, Mapping[str, str]]:
    """Name or pattern, and parameters; a bracket without ``=`` is part of a pattern."""
    bare, bracket, rest = spelling.partition("[")
    if not bracket or "=" not in rest:
        return spelling, {}
    if not rest.endswith("]"):
        raise ConfigError(f"workload {spelling!r}: parameters end with ']': phase/name[ranks=8].")
    return bare, parse_pairs(rest[:-1])


def _with(workload: AnyWorkload, parameters: Mapping[str, str], spelling: str) -> AnyWorkload:
    if not parameters:
        return workload
    if isinstance(workload, Workload):
        raise ConfigError(f"workload {spelling!r}: {workload.name} is a generated stream and has no parameters.")
    return workload.with_values(parameters)


def _suggest(name: str) -> str:
    known = list(_registry)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if not near:  # the phase may have been left out: kv_fetch
        short = {workload.partition("/")[2]: workload for workload in known}
        near = [short[hit] for hit in difflib.get_close_matches(name, list(short), n=3, cutoff=0.6)]
    return f"Did you mean {' or '.join(near)}?" if near else f"Known are: {', '.join(known)}."


_OURS: Final[tuple[tuple[AnyWorkload, ...], ...]] = (
    pretrain.WORKLOADS, finetune.WORKLOADS, inference.WORKLOADS, workloads.MODELS, micro.WORKLOADS,
)  # fmt: skip
for _workload in chain.from_iterable(_OURS):
    register(_workload)
