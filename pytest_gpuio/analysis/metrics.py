"""The metrics verdicts are made of: what each is, which direction is better, and how a record gives it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pytest_gpuio.core.errors import ConfigError

Better = Literal["lower", "higher"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a cell.

    Attributes:
        name: as options, policies and JSON spell it.
        title: for people.
        unit: of the values, spelled as in a table's head.
        better: the direction users want.
        values: from a record to one value per window where windows have it, else one; empty when the record does not
            have it.
    """

    name: str
    title: str
    unit: str
    better: Better
    values: Callable[[Mapping[str, Any]], Sequence[float]]

    def logs(self, record: Mapping[str, Any]) -> tuple[float, ...]:
        """Natural logarithms of the values; empty unless every one is a positive finite number.

        A missing, empty, zero or NaN metric has no logarithm, so that it can never be judged as equal or better.
        """
        try:
            values = tuple(float(value) for value in self.values(record))
        except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError):
            return ()
        if not values or not all(math.isfinite(value) and value > 0 for value in values):
            return ()
        return tuple(map(math.log, values))


def _seconds_per_io(record: Mapping[str, Any]) -> Sequence[float]:
    windows = record["windows"]
    return [seconds / windows["ios_per_window"] for seconds in windows["seconds"]]


def _bytes_per_s(record: Mapping[str, Any]) -> Sequence[float]:
    request = record["bytes"] / record["ios"]
    return [request / seconds for seconds in _seconds_per_io(record)]


def _p99(record: Mapping[str, Any]) -> Sequence[float]:
    open_loop = record.get("open_loop")
    # In an open loop users wait from the intended start on: the response, not the service time.
    distribution = open_loop["response"] if open_loop else record["latency"]["lat"]
    return [distribution["p99_ns"]]


def _cpu_s_per_gb(record: Mapping[str, Any]) -> Sequence[float]:
    return [1.0 / record["cpu"]["gb_per_s_per_core"]]


def _cpu_reserved_s_per_gb(record: Mapping[str, Any]) -> Sequence[float]:
    return [1.0 / record["cpu"]["gb_per_s_per_core_reserved"]]


def told(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The figure that decides for a workload model, as its record holds it; None of a stream."""
    found: Mapping[str, Any] | None = (record.get("replay") or {}).get("deciding")
    return found


def _of_phase(name: str) -> Callable[[Mapping[str, Any]], Sequence[float]]:
    def values(record: Mapping[str, Any]) -> Sequence[float]:
        found = told(record)
        return [found["value"]] if found is not None and found["metric"] == name else []

    return values


_METRICS: Final = (
    Metric("bytes_per_s", "throughput", "B/s", "higher", _bytes_per_s),
    Metric("seconds_per_io", "time per I/O", "s/IO", "lower", _seconds_per_io),
    Metric("p99", "p99 latency", "ns", "lower", _p99),
    Metric("cpu_s_per_gb", "CPU seconds per GB", "s/GB", "lower", _cpu_s_per_gb),
    Metric(
        "cpu_reserved_s_per_gb", "CPU seconds per GB, pollers' cores included", "s/GB", "lower", _cpu_reserved_s_per_gb
    ),
    # What decides for models of a phase; a stall can be zero, of which nothing is a share, so it is not among them.
    Metric("utilization", "utilisation of the accelerator", "share", "higher", _of_phase("utilization")),
    Metric("durable", "time until a checkpoint is durable", "s", "lower", _of_phase("durable")),
    Metric("resident", "time until a model is in memory", "s", "lower", _of_phase("resident")),
    Metric("completion_p99", "p99 of a group's completion", "s", "lower", _of_phase("completion_p99")),
)
#: Every metric by name.
METRICS: Final[Mapping[str, Metric]] = {metric.name: metric for metric in _METRICS}
#: Judged unless a policy says otherwise, with what decides for the workload's model.
DEFAULT_METRICS: Final = ("bytes_per_s", "p99", "cpu_s_per_gb")


def default_metrics(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the metrics of a cell that are judged unless a policy says otherwise."""
    found = told(record)
    own = (str(found["metric"]),) if found is not None and found["metric"] in METRICS else ()
    return (*DEFAULT_METRICS, *own)


def metric(name: str) -> Metric:
    """The metric of a name.

    Raises:
        ConfigError: there is none; the text lists them.
    """
    try:
        return METRICS[name]
    except KeyError:
        raise ConfigError(f"there is no metric {name!r}: choose from {', '.join(METRICS)}.") from None
