"""Feeding pytest-benchmark: windows measured in C become its rounds, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from pytest_benchmark.utils import DEFAULT_COLUMNS

if TYPE_CHECKING:
    from pytest_gpuio.plugin.state import Run
    from pytest_gpuio.results.record import CellRecord

#: pytest-benchmark's own columns take over 200 characters; these fit a terminal beside our section.
NARROW: Final = ["median", "ops", "rounds"]
#: Rows above which its table is left out in favour of a short best and worst table.
MANY_ROWS: Final = 50


class WindowClock:
    """A timer that reads 0, then the duration it was fed, so that their difference is bit-exact.

    pytest-benchmark calls its timer before and after each round. A clock that only went on would lose the last bits
    of a microsecond to the seconds before it.
    """

    __name__ = "gpuio_window_clock"

    def __init__(self) -> None:
        self._pending = 0.0

    def feed(self, seconds: float) -> None:
        """Set what the next reading returns."""
        self._pending = seconds

    def __call__(self) -> float:
        """The fed duration, once; else 0."""
        value, self._pending = self._pending, 0.0
        return value


CLOCK: Final = pytest.StashKey[WindowClock]()


def narrow_table(config: pytest.Config) -> None:
    """Choose fewer columns unless the user chose them."""
    if getattr(config.option, "benchmark_columns", None) in (None, DEFAULT_COLUMNS):
        config.option.benchmark_columns = list(NARROW)


#: Options of pytest-benchmark that need all rows at the end.
_NEED_ROWS: Final = ("json", "save", "autosave", "compare", "compare_fail", "histogram", "verbose", "cprofile_dump")


def drop_rows(config: pytest.Config, rows: int) -> None:
    """Above :data:`MANY_ROWS` rows, whose table is left out, take them out of pytest-benchmark's session.

    They stay where something was asked for that needs them.

    Args:
        config: pytest's.
        rows: finished cells.
    """
    session = getattr(config, "_benchmarksession", None)
    needed = any(getattr(config.option, f"benchmark_{name}", None) for name in _NEED_ROWS)
    if session is not None and rows > MANY_ROWS and not needed:
        session.benchmarks.clear()


def group_label(axes: Mapping[str, Any]) -> str:
    """The group of a cell: rows that differ in data path and geometry only."""
    return f"{axes['medium']}/{axes['workload']}"


def group_rows(
    config: pytest.Config, benchmarks: list[dict[str, Any]], group_by: str
) -> list[tuple[str | None, list[dict[str, Any]]]] | None:
    """pytest-benchmark's groups; in ours a row's name is what the group's does not say. None without rows of ours."""
    from pytest_gpuio.report.compare_hooks import pytest_benchmark_group_stats
    from pytest_gpuio.report.labels import within_workload

    if not any("gpuio" in bench["extra_info"] for bench in benchmarks):
        return None
    groups = pytest_benchmark_group_stats(config, benchmarks, group_by)
    for label, rows in groups:
        for bench in rows:
            record = bench["extra_info"].get("gpuio")
            if record and label == group_label(record["axes"]):
                function = bench["name"].partition("[")[0]
                bench["name"] = f"{function}[{within_workload(record['axes'])}]"
    return groups


def attach_clock(item: pytest.Item, group: str) -> None:
    """Give the item a window clock as pytest-benchmark's timer, keeping what the suite's own mark says."""
    clock = WindowClock()
    item.stash[CLOCK] = clock
    own = item.get_closest_marker("benchmark")
    keywords: dict[str, Any] = {"group": group} | (dict(own.kwargs) if own else {}) | {"timer": clock}
    item.add_marker(pytest.mark.benchmark(**keywords), append=False)


def check_fixture(benchmark: Any) -> BenchmarkFixture:
    """The fixture, if it is pytest-benchmark's own.

    Raises:
        pytest.UsageError: another plugin took its place.
    """
    # pytest-codspeed's fixture pretends to be of pytest-benchmark's class.
    if not isinstance(benchmark, BenchmarkFixture) or not hasattr(benchmark, "disabled"):
        raise pytest.UsageError(
            f"the 'benchmark' fixture here is {type(benchmark).__module__}'s, not pytest-benchmark's: pytest-gpuio "
            "cannot record into it. Drop --codspeed, or deselect the gpuio tests."
        )
    return benchmark


_NOTHING: Final = pytest.StashKey[bool]()


def nothing_to_record(item: pytest.Item) -> None:
    """Remember that the cell has no number; see :func:`hush`."""
    item.stash[_NOTHING] = True


def hush(item: pytest.Item) -> None:
    """Keep pytest-benchmark from warning about an unused fixture where there is nothing to record.

    It overwrites the flag when it makes its report, so this must come after that and before the teardown.
    """
    if item.stash.get(_NOTHING, False):
        item.funcargs["benchmark"].skipped = True  # type: ignore[attr-defined]


def replay(benchmark: BenchmarkFixture, clock: WindowClock, record: CellRecord) -> None:
    """Hand the windows over as rounds of seconds per I/O; OPS is then IOPS."""
    ios = record["windows"]["ios_per_window"]
    costs = iter([seconds / ios for seconds in record["windows"]["seconds"]])

    def feed() -> None:
        # With --benchmark-cprofile the target is called once more than there are rounds.
        clock.feed(next(costs, 0.0))

    benchmark.extra_info["gpuio"] = record
    _run_rounds(benchmark, feed, record["windows"]["count"])
    if benchmark.stats is not None:
        benchmark.stats.iterations = ios


def _run_rounds(benchmark: Any, target: Callable[[], None], rounds: int) -> None:
    benchmark.pedantic(target, rounds=rounds, iterations=1)


def smoke(benchmark: BenchmarkFixture, ios: int) -> None:
    """Mark the fixture as used after a smoke run; pytest-benchmark is disabled and keeps nothing."""
    benchmark.extra_info["gpuio_smoke_ios"] = ios
    _run_rounds(benchmark, lambda: None, 1)


def update_machine_info(machine_info: dict[str, Any], run: Run) -> None:
    """Add our block; drop what changes between runs of one machine, so that ``compare`` does not warn for nothing."""
    from pytest_gpuio.machine import describe

    cpu = machine_info.get("cpu")
    if isinstance(cpu, dict):
        for volatile in ("hz_actual", "hz_actual_friendly", "flags"):
            cpu.pop(volatile, None)
    machine_info["gpuio"] = {
        "machine": describe(),
        "targets": {
            name: {
                "medium": medium.name,
                "file_system": medium.file_system,
                "mount_options": medium.mount_options,
                "devices": [asdict(device) for device in medium.devices],
            }
            for name, medium in run.media.items()
        },
    }
