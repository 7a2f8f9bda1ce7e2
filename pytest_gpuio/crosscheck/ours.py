"""Our side of a comparison: a plan measured by a child process, exactly as a pytest run does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self

from pytest_gpuio.core.errors import CellVoid, ChildDied, EngineError, errno_text
from pytest_gpuio.crosscheck.side import PERCENTILES, Side
from pytest_gpuio.crosscheck.truth import Watch
from pytest_gpuio.isolation import Children
from pytest_gpuio.measure.binned import unpack
from pytest_gpuio.measure.families import CHILD_MODULE
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.prepare import PreparedTarget
from pytest_gpuio.measure.totals import Totals, sum_up
from pytest_gpuio.results import histogram

_SETUP_S: Final = 60.0
_LAYOUT_SILENCE_S: Final = 120.0
#: A precision that no run reaches: windows go on for the whole time asked for.
_NEVER: Final = 1e-9
_WINDOW_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Measured:
    """A plan's run: the side, the child's whole outcome, and the sums over its windows."""

    side: Side
    outcome: Mapping[str, Any]
    totals: Totals


class Ours:
    """Measuring children of one comparison; ends them when it is left."""

    def __init__(self) -> None:
        self._children = Children(CHILD_MODULE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends every child; bounded."""
        self._children.close_all()

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the living children."""
        return self._children.pids

    def ask(
        self, family: str, op: str, params: Mapping[str, Any], *, deadline_s: float, silence_s: float | None = None
    ) -> Any:
        """One request to the child of a family, which is replaced when it did not survive.

        Raises:
            ChildDied: it crashed or hung. GpuioError: what the operation raised.
        """
        try:
            return self._children.get(family).request(op, dict(params), deadline_s=deadline_s, silence_s=silence_s)
        except (ChildDied, EngineError):
            self._children.replace(family)
            raise

    def lay_out(self, path: str, data_bytes: int) -> PreparedTarget:
        """A complete target file of ours at ``path``.

        Raises:
            GpuioError: as :func:`pytest_gpuio.targets.lay_out`.
        """
        laid = self.ask(
            "layout",
            "lay_out",
            {"path": path, "data_bytes": data_bytes},
            deadline_s=data_bytes / 5e6 + _LAYOUT_SILENCE_S,
            silence_s=_LAYOUT_SILENCE_S,
        )
        return PreparedTarget(**laid)

    def observe(self, plan: Plan, family: str = "crosscheck") -> tuple[Mapping[str, Any], Totals]:
        """Measures a plan as it stands, with nobody watching: the child's outcome, and the sums over its windows.

        Raises:
            CellVoid: requests failed, were short, or brought wrong data.
            ChildDied: the child crashed or hung. GpuioError: what it raised.
            KeyboardInterrupt: the user stopped it.
        """
        window_s = plan.timeout_s + 5.0
        outcome = self.ask(
            family,
            "measure",
            plan.to_params(),
            deadline_s=_SETUP_S + 20 * window_s + 3 * plan.max_time,
            silence_s=_SETUP_S + window_s,
        )
        if outcome["stop_reason"] == "interrupted" or not outcome["windows"]:
            raise KeyboardInterrupt
        totals = sum_up(plan, outcome)
        _refuse_failures(plan, totals)
        return outcome, totals

    def measure(self, plan: Plan, family: str = "crosscheck") -> Measured:
        """Measures a plan as it stands, and watches the machine meanwhile.

        Raises:
            CellVoid, ChildDied, GpuioError, KeyboardInterrupt: as :meth:`observe`.
        """
        child = self._children.get(family)
        pollers = (*plan.cpus, *plan.sq_cpus)
        with Watch(child.pid, [cpu for cpu in pollers if cpu >= 0]) as watch:
            outcome, totals = self.observe(plan, family)
        return Measured(_side(outcome, totals, watch), outcome, totals)


def for_seconds(plan: Plan, seconds: float) -> Plan:
    """The plan with windows for the whole of ``seconds``, however precise the mean is before."""
    return replace(plan, precision=_NEVER, max_time=seconds, window_s=min(_WINDOW_S, seconds / 2), round="time")


def _refuse_failures(plan: Plan, totals: Totals) -> None:
    where = plan.path or plan.engine
    if totals.errors:
        raise CellVoid("no_errors", f"{totals.errors:,} requests on {where} failed: {errno_text(totals.first_error)}.")
    if totals.short_ios:
        raise CellVoid("no_short_io", f"{totals.short_ios:,} requests on {where} were short.")
    if totals.bad:
        raise CellVoid("data_verified", f"{totals.bad:,} of {totals.verified:,} blocks of {where} hold wrong data.")


def _side(outcome: Mapping[str, Any], totals: Totals, watch: Watch) -> Side:
    windows: Sequence[Mapping[str, Any]] = outcome["windows"]
    cpu_s = sum(window["cpu_ns"] for window in windows) / 1e9
    return Side(
        tool="gpuio",
        ios=totals.ios,
        bytes=totals.bytes,
        seconds=totals.seconds,
        latency=latency(outcome["latency"]["lat"]),
        cores_told=cpu_s / totals.seconds,
        observed=watch.between(windows[0]["start_ns"] / 1e9, windows[-1]["end_ns"] / 1e9),
        notes={"knobs": outcome["knobs"], "windows": len(windows), "warmup": outcome["warmup"]},
    )


def latency(values: Mapping[str, Any]) -> dict[str, float]:
    """Mean and percentiles of a histogram as the child sends it, in nanoseconds; empty when it is."""
    if not values["count"]:
        return {}
    bins = unpack(values["bins"])
    found = {"mean": values["sum_ns"] / values["count"]}
    for name, share in PERCENTILES.items():
        value = histogram.quantile(bins, share, values["min_ns"], values["max_ns"], overflow=values["overflow"])
        if value is not None:
            found[name] = float(value)
    return found
