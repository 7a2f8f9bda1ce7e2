"""ServeGen clients: windows of arrival rate and distribution with token histograms, from which requests are drawn."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.traces.reading import MOST_TOKENS, Format, Reading
from pytest_gpuio.phases.traces.request_trace import RequestTrace
from pytest_gpuio.phases.traces.source import Malformed, Source, decimal_number, shown

_PATTERNS: Final = ("Gamma", "Weibull")
#: Of the last window, when the file has only one.
_WINDOW_S: Final = 600.0
_HOUR_S: Final = 3_600.0
_MOST_REQUESTS: Final = 20_000_000
_LARGEST_DATASET: Final = 256 << 20
_SEED: Final = 42
#: Inputs by the kinds of client: language, reasoning and multimodal models.
_INPUTS: Final = (("input_tokens",), ("text_tokens", "image_tokens", "audio_tokens", "video_tokens"))


@dataclass(frozen=True, slots=True)
class _Window:
    """Arrivals from ``start_s`` on; an empty pattern is an idle window."""

    start_s: float
    rate: float
    pattern: str
    shape: float
    scale_s: float


#: Lengths and their shares.
_Histogram = tuple[NDArray[np.int64], NDArray[np.float64]]


def matches(head: Sequence[bytes]) -> bool:
    """Whether the first line is a window, which has six fields and no header."""
    try:
        _parse(head[0])
    except Malformed:
        return False
    return True


def read(source: Source, reading: Reading) -> RequestTrace:
    """Draws the requests of a client; its ``-dataset.json`` is looked for beside its ``-trace.csv``.

    Raises:
        TraceError: one of the files cannot be read.
        ConfigError: the part of time asked for has no request, or far too many.
    """
    windows = _windows(source)
    dataset = source.path.with_name(source.path.name.removesuffix("-trace.csv") + "-dataset.json")
    inputs, outputs = _dataset(source, dataset)
    active = next((window.start_s for window in windows if window.pattern), None)
    if active is None:
        source.fail("describes no active window: nothing can be drawn from it.")
    start = active if reading.start_s is None else reading.start_s
    end = start + (_HOUR_S if reading.duration_s is None else reading.duration_s)
    seed = _SEED if reading.seed is None else reading.seed
    parts = list(_parts(windows, start, end))
    expected = sum((until - since) * window.rate for window, since, until in parts)
    if expected > _MOST_REQUESTS:
        raise ConfigError(
            f"{source.path}: {expected:,.0f} requests would be drawn, over {_MOST_REQUESTS:,}: take a part of the time "
            "(--from, --for)."
        )
    rng = np.random.default_rng(seed)
    arrivals = [_draw(rng, window, since, until) for window, since, until in parts]
    at = np.concatenate(arrivals) if arrivals else np.empty(0)
    if not len(at):
        raise ConfigError(
            f"{source.path}: no request is drawn between {start:g} s and {end:g} s; its first active window begins at "
            f"{active:g} s (--from)."
        )
    note = f"drawn from a model: seconds {start:,.0f} .. {end:,.0f} of it (--from, --for), seed {seed} (--seed)"
    return RequestTrace(
        source.path,
        FORMAT.name,
        np.rint(at * 1e9).astype(np.int64),
        np.sum([_lengths(rng, kind, at, source, dataset) for kind in inputs], axis=0),
        _lengths(rng, outputs, at, source, dataset),
    ).ordered((note,))


def _windows(source: Source) -> list[_Window]:
    windows: list[_Window] = []
    for number, line in source.lines():
        try:
            window = _parse(line)
            if windows and window.start_s <= windows[-1].start_s:
                raise Malformed(f"window {window.start_s:g} s does not come after {windows[-1].start_s:g} s")
        except Malformed as why:
            source.refuse(number, why)
            continue
        windows.append(window)
    source.finish(len(windows))
    return windows


def _parse(line: bytes) -> _Window:
    fields = line.strip().split(b",")
    if len(fields) != 6:
        raise Malformed(f"{len(fields)} fields where t,rate,cv,pattern,arg1,arg2 are 6: {shown(line)}")
    start, rate, _, first, second = (
        decimal_number(fields[index], name, 1e9)
        for index, name in ((0, "time"), (1, "rate"), (2, "CV"), (4, "shape"), (5, "scale"))
    )
    pattern = fields[3].strip().decode("ascii", "replace")
    if not pattern:
        return _Window(start, 0.0, "", 0.0, 0.0)
    if pattern not in _PATTERNS:
        raise Malformed(f"pattern {shown(fields[3])} is none of {', '.join(_PATTERNS)} (empty = idle)")
    if not (first > 1e-3 and second > 1e-9):
        raise Malformed(f"shape {first:g} and scale {second:g} s must be above 0")
    return _Window(start, rate, pattern, first, second)


def _parts(windows: list[_Window], start: float, end: float) -> Iterator[tuple[_Window, float, float]]:
    """The active windows between two times, each with its part of that stretch."""
    length = min((b.start_s - a.start_s for a, b in pairwise(windows)), default=_WINDOW_S)
    ends = [window.start_s for window in windows[1:]] + [windows[-1].start_s + length]
    for window, until in zip(windows, ends, strict=True):
        since, until = max(window.start_s, start), min(until, end)
        if window.pattern and since < until:
            yield window, since, until


def _draw(rng: np.random.Generator, window: _Window, since: float, until: float) -> NDArray[np.float64]:
    """Arrival times: a renewal process of the window's distribution."""
    mean = window.shape * window.scale_s if window.pattern == "Gamma" else (
        window.scale_s * math.gamma(1 + 1 / window.shape)
    )  # fmt: skip
    drawn: list[NDArray[np.float64]] = []
    at = since
    while at < until:
        count = min(1 << 20, int((until - at) / mean * 1.1) + 16)
        gaps = (
            rng.gamma(window.shape, window.scale_s, count)
            if window.pattern == "Gamma"
            else window.scale_s * rng.weibull(window.shape, count)
        )
        times = at + np.cumsum(gaps)
        drawn.append(times[times < until])
        if sum(map(len, drawn)) > _MOST_REQUESTS:
            raise ConfigError(
                f"window {window.start_s:g} s draws over {_MOST_REQUESTS:,} requests: its gaps are too short."
            )
        at = max(float(times[-1]), np.nextafter(at, np.inf))
    return np.concatenate(drawn)


def _dataset(source: Source, path: Path) -> tuple[list[dict[float, _Histogram]], dict[float, _Histogram]]:
    """Histograms by time, of each kind of input and of outputs."""
    try:
        if path == source.path or not path.is_file():
            source.fail(f"its token histograms are missing: put {path.name} beside it (ServeGen keeps them in pairs).")
        if path.stat().st_size > _LARGEST_DATASET:
            source.fail(f"{path.name} is larger than {_LARGEST_DATASET >> 20} MiB: no ServeGen data set.")
        told = json.loads(path.read_bytes())
    except OSError as error:
        source.fail(f"{path.name} cannot be read: {error.strerror}.")
    except (ValueError, RecursionError):
        source.fail(f"{path.name} is not JSON.")
    if not isinstance(told, dict):
        source.fail(f"{path.name} is not an object of times.")
    found: dict[str, dict[float, _Histogram]] = {}
    for time, kinds in told.items():
        try:
            at = decimal_number(str(time).encode(), "time", 1e9)
            for kind, text in kinds.items():
                if kind.endswith("_tokens"):
                    histogram = _histogram(text)
                    if histogram is not None:
                        found.setdefault(kind, {})[at] = histogram
        except (Malformed, AttributeError) as why:
            source.fail(f"{path.name}, time {str(time)[:20]!r}: {why}.")
    inputs = next(
        ([found[kind] for kind in names if kind in found] for names in _INPUTS if any(kind in found for kind in names)),
        [],
    )
    if not inputs or "output_tokens" not in found:
        source.fail(f"{path.name} has no histograms of input and output tokens.")
    return inputs, found["output_tokens"]


def _histogram(text: Any) -> _Histogram | None:
    """A Python dict written as a string, ``{length: share, ...}``; None = empty.

    Raises:
        Malformed: it is none.
    """
    try:
        told = ast.literal_eval(text) if isinstance(text, str) else text
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        told = None
    if not isinstance(told, dict):
        raise Malformed("a histogram is not {length: share, ...}")
    if not told:
        return None
    for length, share in told.items():
        if not (isinstance(length, int | float) and 0 <= length <= MOST_TOKENS and length == int(length)):
            raise Malformed(f"{str(length)[:20]!r} is not a number of tokens")
        if not (isinstance(share, int | float) and 0 <= share <= 1.001):
            raise Malformed(f"{str(share)[:20]!r} is not a share")
    shares = np.array(list(told.values()), dtype=np.float64)
    if not 0.99 <= shares.sum() <= 1.01:
        raise Malformed(f"the shares of a histogram make {shares.sum():.4g} instead of 1")
    return np.array([int(length) for length in told], dtype=np.int64), shares / shares.sum()


def _lengths(
    rng: np.random.Generator, kind: dict[float, _Histogram], at: NDArray[np.float64], source: Source, path: Path
) -> NDArray[np.int64]:
    """Tokens of each request, by the histogram in force when it arrives (or the nearest later one)."""
    times = sorted(kind)
    if not times:
        source.fail(f"{path.name} has an empty histogram.")
    edges = np.searchsorted(at, times[1:], "left")
    lengths = np.empty(len(at), dtype=np.int64)
    for index, part in enumerate(np.split(np.arange(len(at)), edges)):
        if len(part):
            values, shares = kind[times[index]]
            lengths[part] = rng.choice(values, size=len(part), p=shares)
    return lengths


FORMAT: Final = Format(
    "servegen",
    "ServeGen client: chunk-N-trace.csv with chunk-N-dataset.json beside it; requests are drawn from it",
    "request",
    matches,
    read,
    choices=("seed", "start_s", "duration_s"),
    generator=True,
)
