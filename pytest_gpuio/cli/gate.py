"""``gpuio gate``: new runs against a baseline."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from typing import Final

from pytest_gpuio.analysis.comparable import ASPECTS, check_aspects
from pytest_gpuio.analysis.decision import LEAST_BASELINE, LEAST_NEW, LEAST_PAIRS
from pytest_gpuio.analysis.gate import GateReport, Mode, judge
from pytest_gpuio.analysis.metrics import METRICS
from pytest_gpuio.analysis.policy import Policy, Rule, parse_effect, read_policy, with_effect
from pytest_gpuio.cli.output import put, put_json, terminal
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.report.gate import gate_data, gate_junit, gate_markdown, gate_text
from pytest_gpuio.results.runs import RunFile, read_runs

_HELP: Final = f"""\
Decides case by case and metric by metric whether new runs differ from a baseline. The sample is the process (one
pytest run), not the round: rounds of one process share its luck, and tests that pool them raise an alarm in a third of
unchanged cases. One run on each side decides nothing.

  look-back   at least {LEAST_BASELINE} baseline runs and {LEAST_NEW} new ones of one machine
              (16 and 6, with 10 more to confirm, find 5 % on a host with 2 % noise, 10 % with 4 %)
  pairs       at least {LEAST_PAIRS} of each, run in turns, A B B A A B ...; recognised by their times
              (10, and 10 more to confirm, find as much; `gpuio ab` runs them)

A case that looks SLOWER is measured once more (--confirm) before the gate fails: exit status 3 until then.
"""
_EXAMPLES: Final = """\
examples:

    gpuio gate --baseline .benchmarks --baseline-last 16 --new new*.json
        The last 16 runs of the storage against the new ones.

    gpuio gate --baseline .benchmarks --new new*.json --reruns cases.txt
    pytest bench_suites --gpuio-case=@cases.txt --benchmark-json=again1.json
        Which cases look slower, and the runs that confirm them (ten are recommended).

    gpuio gate --baseline a*.json --new b*.json --confirm again*.json --markdown "$GITHUB_STEP_SUMMARY"
        With the re-run that the first call asked for, and a summary for a pull request.

    gpuio gate --baseline old/ --new new/ --allow kernel --min-effect 5%
        What did the new kernel change by more than 5 %?

    gpuio gate --simulate 2000
        How often the rules raise a false alarm, and how often they find 5 and 10 %, on simulated hosts.

exit status: 0 passed, 1 SLOWER, MISSING or VOID, 2 wrong usage, 3 cases must be run again, 4 nothing could be compared
"""


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio gate``."""
    result = argparse.ArgumentParser(
        "gpuio gate",
        usage="gpuio gate --baseline FILE ... --new FILE ... [options]",
        description=_HELP,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = "pytest-benchmark JSON, gpuio-results.json, journals, or a storage folder"
    result.add_argument("--baseline", nargs="+", metavar="FILE", default=[], help=f"baseline runs: {what}")
    result.add_argument("--new", nargs="+", metavar="FILE", default=[], help="new runs, likewise")
    result.add_argument("--confirm", nargs="+", metavar="FILE", default=[], help="new runs, measured once more")
    result.add_argument(
        "--confirm-baseline", nargs="+", metavar="FILE", default=[], help="the baseline's half of a re-run in pairs"
    )
    result.add_argument(
        "--baseline-last", type=int, metavar="N", help="only the newest N baseline runs of the same machine"
    )
    how = result.add_mutually_exclusive_group()
    how.add_argument("--pairs", dest="mode", action="store_const", const="pairs", help="runs are pairs, in their order")
    how.add_argument("--lookback", dest="mode", action="store_const", const="lookback", help="runs are no pairs")
    result.add_argument(
        "--reruns", metavar="FILE", help="write the cases to be measured once more, for pytest's --gpuio-case=@FILE"
    )
    add_judging_options(result)
    result.add_argument("--simulate", type=int, metavar="TRIALS", help="try the rules on simulated hosts instead")
    return result


def add_judging_options(result: argparse.ArgumentParser) -> None:
    """Adds the options of every command that judges runs."""
    result.add_argument("--policy", metavar="FILE", help="rules by axis: metrics, effects, what to ignore (TOML)")
    result.add_argument("--metric", action="append", metavar="NAME", help=f"judge these only: {', '.join(METRICS)}")
    result.add_argument("--min-effect", metavar="SHARE", help="smaller changes do not count; default 3%%")
    result.add_argument(
        "--allow", action="append", default=[], metavar="WHAT", help=f"may differ: {', '.join(ASPECTS)}"
    )
    result.add_argument("--strict", action="store_true", help="AMBIGUOUS and INCOMPARABLE fail, too")
    result.add_argument("--all", action="store_true", help="show unchanged and new cases, too")
    result.add_argument("--json", metavar="FILE", help="write everything as JSON (- = standard output)")
    result.add_argument("--junit", metavar="FILE", help="write JUnit XML")
    result.add_argument("--markdown", metavar="FILE", help="append Markdown (a pull request's summary)")


def run(arguments: argparse.Namespace) -> int:
    """Judges, prints, writes what was asked for.

    Returns:
        See the help: 0, 1, 3 or 4.

    Raises:
        ConfigError: runs that cannot be read or paired, an unknown metric, a malformed policy.
    """
    if arguments.simulate is not None:
        return _simulate(arguments)
    if not arguments.baseline or not arguments.new:
        raise ConfigError("name both: --baseline FILE ... and --new FILE ... (gpuio gate --help shows examples).")
    policy = policy_of(arguments)
    new = read_runs(arguments.new)
    baseline = _last(read_runs(arguments.baseline), arguments.baseline_last, new)
    confirm, confirm_baseline = read_runs(arguments.confirm), read_runs(arguments.confirm_baseline)
    _refuse_shared(baseline, new, confirm, confirm_baseline)
    mode: Mode | None = arguments.mode
    report = judge(baseline, new, policy, confirm_baseline=confirm_baseline, confirm=confirm, mode=mode)
    report = dataclasses.replace(report, strict=arguments.strict)
    if arguments.reruns:
        put(arguments.reruns, "".join(f"{case}\n" for case in report.reruns()), "w")
    write_report(report, arguments)
    return report.status()


def _simulate(arguments: argparse.Namespace) -> int:
    from pytest_gpuio.analysis.simulation import SITUATIONS, try_rules

    if not 1 <= arguments.simulate <= 1_000_000:
        raise ConfigError(f"--simulate {arguments.simulate}: between 1 and 1,000,000 trials.")
    found = []
    for situation in SITUATIONS:
        result = try_rules(situation, arguments.simulate)
        found.append({**dataclasses.asdict(situation), **dataclasses.asdict(result)})
        if arguments.json != "-":
            sys.stdout.write(
                f"{situation.mode:<8} {situation.metric:<12} noise {situation.noise:.0%}  "
                f"change {situation.change:+.0%}  "
                f"first look {result.candidates:7.2%}  confirmed {result.slower:7.2%}  faster {result.faster:7.2%}\n"
            )
            sys.stdout.flush()
    if arguments.json:
        put_json(arguments.json, {"kind": "gpuio-gate-simulation", "situations": found})
    return 0


def write_report(report: GateReport, arguments: argparse.Namespace) -> None:
    """Prints a report and writes it where ``--json``, ``--junit`` and ``--markdown`` say.

    Raises:
        ConfigError: a file cannot be written.
    """
    # Files first: who reads the table through a pipe that closes early still gets them.
    if arguments.junit:
        put(arguments.junit, gate_junit(report), "w")
    if arguments.markdown:
        put(arguments.markdown, gate_markdown(report), "a")
    if arguments.json:
        put_json(arguments.json, gate_data(report))
    if "-" not in (arguments.json, arguments.junit, arguments.markdown):
        width, colour = terminal()
        sys.stdout.write(gate_text(report, width, colour=colour, everything=arguments.all))


def policy_of(arguments: argparse.Namespace) -> Policy:
    """The policy of ``--policy``, ``--metric``, ``--min-effect`` and ``--allow``.

    Raises:
        ConfigError: a malformed one.
    """
    policy = read_policy(arguments.policy) if arguments.policy else Policy()
    if arguments.min_effect is not None:
        policy = with_effect(policy, parse_effect(arguments.min_effect, "--min-effect"))
    check_aspects(arguments.allow)
    rules = policy.rules
    if arguments.metric:
        for name in arguments.metric:
            if name not in METRICS:
                raise ConfigError(f"--metric {name}: choose from {', '.join(METRICS)}.")
        rules = (*rules, Rule({}, metrics=tuple(dict.fromkeys(arguments.metric))))
    return Policy(rules, policy.allow | frozenset(arguments.allow))


def _last(runs: list[RunFile], count: int | None, new: list[RunFile]) -> list[RunFile]:
    """The newest runs of the machines that the new ones come from; of any where there is none of those."""
    if count is None:
        return runs
    if count < 1:
        raise ConfigError(f"--baseline-last {count}: at least one run is needed.")
    machines = {one.machine_id for one in new}
    return ([one for one in runs if one.machine_id in machines] or runs)[-count:]


def _refuse_shared(*groups: list[RunFile]) -> None:
    seen: set[str] = set()
    for group in groups:
        for run_file in group:
            path = os.path.realpath(run_file.path)
            if path in seen:
                raise ConfigError(f"{run_file.path} is on two sides: a run cannot be its own baseline.")
            seen.add(path)
