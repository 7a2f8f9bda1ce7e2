"""What a trace format is: a name, how its content is known, and how it is read."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pytest_gpuio.phases.traces.block_trace import BlockTrace
from pytest_gpuio.phases.traces.request_trace import RequestTrace
from pytest_gpuio.phases.traces.source import Source

Kind = Literal["request", "block"]
#: How fio's ``wait`` lines are read: as fio 3.33 acts on them, or as its documentation has it.
Wait = Literal["ms-since-start", "us-since-previous"]

#: Requests a second that a trace of a model service can have; the largest published ones have some hundred.
REQUEST_RATES: Final = (0.01, 1_000.0)
#: Operations on objects a second that a trace can have.
IO_RATES: Final = (0.01, 1e6)
#: Tokens of one request; far above any context window.
MOST_TOKENS: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Reading:
    """Choices for reading a trace; each is for some formats only, see :attr:`Format.choices`.

    Attributes:
        time_unit: ``s``, ``ms``, ``us`` or ``ns``; None = as documented, checked.
        block_tokens: tokens of a prefix block; None = as documented, checked.
        wait: meaning of ``wait`` in version 2 iologs.
        event: blktrace event that counts: ``D`` (issued to the driver) or ``Q`` (queued); None = D if there are any.
        seed: of formats that are generators.
        start_s, duration_s: part of the time that a generator covers; None = one hour from the first active moment.
    """

    time_unit: str | None = None
    block_tokens: int | None = None
    wait: Wait | None = None
    event: str | None = None
    seed: int | None = None
    start_s: float | None = None
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """A trace format.

    Attributes:
        name: as ``--format`` takes it.
        title: one line for people.
        kind: ``request`` (tokens and prefixes) or ``block`` (operations on bytes).
        matches: whether the first lines are of this format.
        read: reads it.
        choices: names of attributes of :class:`Reading` that it heeds.
        generator: its file is a model that requests are drawn from.
    """

    name: str
    title: str
    kind: Kind
    matches: Callable[[Sequence[bytes]], bool]
    read: Callable[[Source, Reading], RequestTrace | BlockTrace]
    choices: tuple[str, ...] = ()
    generator: bool = False


def column(values: array[Any], dtype: DTypeLike) -> NDArray[Any]:
    """A growing array as a numpy array, without a copy."""
    return np.frombuffer(values, dtype) if len(values) else np.empty(0, dtype)
