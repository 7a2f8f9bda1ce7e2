"""``--gpuio-plan``: the cells of a sweep's plan as pytest items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.plugin.options import value

if TYPE_CHECKING:
    from pytest_gpuio.measure.settings import Settings
    from pytest_gpuio.media import Medium
    from pytest_gpuio.sweep.expand import PlannedCell, Sweep
    from pytest_gpuio.sweep.plan import Plan


def load(config: pytest.Config) -> Plan | None:
    """The plan that was asked for; makes the packaged suite run where none was named.

    Raises:
        pytest.UsageError: there is no such plan, something in it is wrong, or it needs ``gpuio sweep run``.
    """
    name = value(config, "plan")
    if name is None:
        return None
    from pytest_gpuio.sweep import plan

    try:
        found = plan.load(name if name in plan.BUNDLED else config.invocation_params.dir / name)
    except ConfigError as error:
        raise pytest.UsageError(f"--gpuio-plan: {error}") from None
    environments, caches = found.axes.get("environment", (plan.PLAIN,)), found.axes.get("cache", ())
    if environments != (plan.PLAIN,) or len(caches) > 1:
        raise pytest.UsageError(
            f"--gpuio-plan: {name} has environments or several states of the page cache, which one pytest run cannot "
            "change between: use `gpuio sweep run`."
        )
    if config.args_source != pytest.Config.ArgsSource.ARGS:
        config.args = [str(_suite())]
    return found


def _suite() -> Path:
    package = Path(__file__).parents[1]
    inside = package / "bench_suites"
    # A checkout: the wheel moves the suites into the package.
    return (inside if inside.is_dir() else package.parent / "bench_suites") / "sweep" / "test_sweep.py"


def option(config: pytest.Config, plan: Plan | None, name: str) -> Any:
    """What was given for an option, else what the plan says."""
    given = value(config, name)
    if given is not None or plan is None:
        return given
    if name == "cache" and "cache" in plan.axes:
        return plan.axes["cache"][0]
    return plan.options.get(name)


def place(config: pytest.Config, plan: Plan, settings: Settings, media: Mapping[str, Medium]) -> Sweep:
    """The plan on the targets of this run.

    Raises:
        pytest.UsageError: a target that the plan has not, or one on another medium than it says.
    """
    from pytest_gpuio.sweep import expand

    given = dict(settings.targets)
    if value(config, "target") is None and "target" in plan.axes:
        given = {}
    try:
        return expand.place(plan, settings, given, {name: media[name].name for name in given})
    except ConfigError as error:
        raise pytest.UsageError(f"--gpuio-plan: {error}") from None


def cells(sweep: Sweep, note: Callable[[str], None]) -> Sequence[PlannedCell]:
    """The plan's cells on targets that were given, in the plan's order."""
    from pytest_gpuio.sweep.expand import expand
    from pytest_gpuio.sweep.order import arrange

    found = []
    for planned in expand(sweep):
        if planned.cell.target in sweep.targets:
            found.append(planned)
        else:
            name = planned.cell.target
            note(f"plan {sweep.plan.name}: target {name} has no path: give --gpuio-target {name}=PATH")
    return arrange(found, seed=sweep.plan.seed, block=sweep.plan.block)


def chosen(
    planned: Iterable[PlannedCell], workloads: Sequence[str] | None, narrowed: Mapping[str, Sequence[Any]]
) -> Iterable[PlannedCell]:
    """Those that a test is about.

    Args:
        planned: of the plan.
        workloads: what the test's mark names, by their spelling; None = it has none.
        narrowed: values of axes that the suite parametrized by itself.
    """
    for one in planned:
        cell = one.cell
        if workloads is not None and cell.workload not in workloads:
            continue
        values = {
            "datapath": cell.datapath, "medium": cell.medium, "gpuio_target": cell.target, "phase": cell.phase,
            "gpuio_workload": cell.workload, "gpuio_destination": cell.destination, "gpuio_gpus": cell.gpus,
            "gpuio_bs": cell.bs, "gpuio_qd": cell.qd, "gpuio_jobs": cell.jobs, "gpuio_batch": cell.batch,
            "gpuio_arrivals": one.arrivals,
        }  # fmt: skip
        if all(values[axis] in wanted for axis, wanted in narrowed.items() if axis in values):
            yield one
