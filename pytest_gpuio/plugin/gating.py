"""``--gpuio-gate``: this run judged against a baseline, with its verdict in the exit status."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pytest

from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.plugin.state import run_of

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from pytest_gpuio.analysis.gate import GateReport
    from pytest_gpuio.analysis.policy import Policy
    from pytest_gpuio.plugin.state import Run
    from pytest_gpuio.results.runs import RunFile


@dataclass
class _Gate:
    """What this run is judged with; ``report`` and ``problem`` come at its end."""

    baseline: list[RunFile]
    earlier: list[RunFile]
    policy: Policy
    report: GateReport | None = None
    problem: str | None = None


_GATE: Final = pytest.StashKey[_Gate]()


def prepare(config: pytest.Config) -> None:
    """Read the baseline before anything is measured, so that a mistake costs no time.

    Raises:
        pytest.UsageError: runs that cannot be read, or a malformed policy.
    """
    from pytest_gpuio.analysis.policy import Policy, read_policy
    from pytest_gpuio.results.runs import read_runs

    settings = run_of(config).settings
    try:
        policy = read_policy(settings.gate_policy) if settings.gate_policy else Policy()
        baseline, earlier = read_runs(settings.gate), read_runs(settings.gate_new)
        both = {run.path for run in baseline} & {run.path for run in earlier}
        if both:
            raise ConfigError(f"{min(both)} is on two sides: a run cannot be its own baseline.")
        config.stash[_GATE] = _Gate(baseline, earlier, policy)
    except GpuioError as error:
        raise pytest.UsageError(f"--gpuio-gate: {error}") from None


def judge_session(session: pytest.Session, run: Run) -> None:
    """Judge what this run wrote; a failed gate turns a passed run into a failed one."""
    from pytest_gpuio.analysis.decision import LEAST_NEW
    from pytest_gpuio.analysis.gate import FAILED, judge
    from pytest_gpuio.results.runs import read_run

    gate = session.config.stash.get(_GATE, None)
    if gate is None:
        return
    if not run.written:
        gate.problem = "nothing was measured, so there is nothing to judge"
        return
    try:
        this = read_run(run.settings.results)
        # Tests that this run did not select are not missing from it.
        here = {*this.cells, *this.voids, *this.skips, *this.failures}
        baseline = [
            replace(old, cells={case: cell for case, cell in old.cells.items() if case in here})
            for old in gate.baseline
        ]
        confirms = len(gate.earlier) >= LEAST_NEW
        new = gate.earlier if confirms else [*gate.earlier, this]
        gate.report = judge(baseline, new, gate.policy, confirm=[this] if confirms else (), mode="lookback")
    except GpuioError as error:
        gate.problem = str(error)
    failed = gate.problem is not None or (gate.report is not None and gate.report.status() == FAILED)
    if failed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def show(reporter: TerminalReporter, config: pytest.Config) -> None:
    """Write the gate's section."""
    gate = config.stash.get(_GATE, None)
    if gate is None:
        return
    from pytest_gpuio.report.gate import gate_text

    reporter.section("gpuio gate", sep="-")
    if gate.report is not None:
        width = max(shutil.get_terminal_size((120, 24)).columns, 120)
        reporter.write(gate_text(gate.report, width, colour=reporter.hasmarkup))
    if gate.problem is not None:
        reporter.write_line(f"no verdict: {gate.problem}")
