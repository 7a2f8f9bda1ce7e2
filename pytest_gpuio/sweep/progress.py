"""What a person sees of a running sweep: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Final, TextIO

from pytest_gpuio.report.duration import long_duration
from pytest_gpuio.report.labels import within_workload
from pytest_gpuio.report.tables import cell_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pytest_gpuio.results.record import CellRecord
    from pytest_gpuio.sweep.journal import EndReason
    from pytest_gpuio.sweep.order import Step
    from pytest_gpuio.sweep.run import Fate, Tally

#: Seconds between two plain lines, and between two looks of the live display.
_PLAIN_S: Final = 10.0
_LIVE_S: Final = 0.25
_LAST: Final = 6
#: Cells whose time forecasts the rest.
_RECENT: Final = 100
_ENDS: Final = {
    "complete": "complete",
    "stopped": "stopped: the same command goes on",
    "interrupted": "stopped at once: the same command goes on, with the cell that was running",
    "error": "ended by an error: what was measured is kept",
}


class Pace:
    """Forecasts the time left from the cells of the last minutes."""

    def __init__(self) -> None:
        self._times: deque[float] = deque([time.monotonic()], maxlen=_RECENT)

    def finished(self) -> None:
        """One more cell."""
        self._times.append(time.monotonic())

    def left(self, cells: int) -> float | None:
        """Seconds for that many cells; None = nothing is known yet."""
        if len(self._times) < 2:
            return None
        return cells * (self._times[-1] - self._times[0]) / (len(self._times) - 1)


class Bests:
    """The fastest data path so far for each workload on each medium, by bytes a second."""

    def __init__(self) -> None:
        self._best: dict[tuple[str, str], tuple[float, str]] = {}

    def add(self, record: CellRecord) -> None:
        """One more record; the tool's own path is none."""
        axes = record["axes"]
        if axes["datapath"] == "null":
            return
        key = (str(axes["workload"]), str(axes["medium"]))
        if record["bytes_per_s"] > self._best.get(key, (0.0, ""))[0]:
            self._best[key] = (record["bytes_per_s"], f"{within_workload(axes)}: {cell_line(record)}")

    def lines(self) -> list[str]:
        """One for each workload and medium."""
        return [f"{workload} on {medium}: {text}" for (workload, medium), (_, text) in sorted(self._best.items())]


class PlainProgress:
    """A line every ten seconds, and one for everything that went wrong.

    Args:
        out: standard error by default.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._began = self._told = time.monotonic()
        self._pace, self._bests = Pace(), Bests()
        self._skips: set[str] = set()

    def begin(self, name: str, tally: Tally) -> None:
        """Says what is to come."""
        self._pace = Pace()
        done = tally.cells - tally.left
        self.say(f"sweep {name}: {tally.cells:,} cells, {done:,} of them done before, {tally.left:,} to go")

    def measuring(self, step: Step, tally: Tally) -> None:
        """Nothing: a line for each cell would fill a log."""

    def finished(self, step: Step, fate: Fate, text: str, record: CellRecord | None, tally: Tally) -> None:
        """Counts; tells voids, failures, and each reason of skips once."""
        if fate in ("void", "failure"):
            self.say(f"{fate} {step.planned.cell.case}: {text}")
        elif fate == "skip" and text not in self._skips:
            self._skips.add(text)
            self.say(f"skipped, {step.planned.cell.datapath} on {step.planned.cell.target}: {text}")
        if step.kind == "cell" and fate != "skip":
            self._pace.finished()
        if record is not None and step.kind == "cell":
            self._bests.add(record)
            if time.monotonic() - self._told >= _PLAIN_S:
                self._told = time.monotonic()
                self.say(f"{standing(tally, self._pace)}; {within_workload(record['axes'])}: {cell_line(record)}")

    def say(self, text: str) -> None:
        """A line with the seconds since the beginning."""
        self._out.write(f"[{time.monotonic() - self._began:6.0f} s] {text}\n")
        self._out.flush()

    def end(self, reason: EndReason, tally: Tally) -> None:
        """Says how it ended, and what was best."""
        self.say(f"{_ENDS[reason]}; {standing(tally)}")
        for line in self._bests.lines():
            self._out.write(f"  best of {line}\n")
        self._out.flush()


def standing(tally: Tally, pace: Pace | None = None) -> str:
    """``120 of 936 measured, 2 void, 0 failed, 168 skipped, 646 to go, 12 min left``."""
    text = (
        f"{tally.measured:,} of {tally.cells:,} measured, {tally.voids:,} void, {tally.failures:,} failed, "
        f"{tally.skipped:,} skipped, {tally.left:,} to go"
    )
    seconds = pace.left(tally.left) if pace is not None else None
    return text if seconds is None else f"{text}, {long_duration(seconds)} left"


class LiveProgress(PlainProgress):
    """A display that is redrawn between cells; it has no thread of its own that could wake inside a window."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._lines: deque[str] = deque(maxlen=_LAST)
        self._current = ""
        self._drawn = 0.0

    def begin(self, name: str, tally: Tally) -> None:
        """Opens the display."""
        super().begin(name, tally)
        self._live.start()

    def measuring(self, step: Step, tally: Tally) -> None:
        """Shows the cell."""
        cell = step.planned.cell
        self._current = f"{step.kind} {cell.workload} {within_workload(cell.axes())}"
        self._draw(tally)

    def finished(self, step: Step, fate: Fate, text: str, record: CellRecord | None, tally: Tally) -> None:
        """Shows the result."""
        self._told = time.monotonic()  # no plain line
        super().finished(step, fate, text, record, tally)
        if record is not None:
            axes = record["axes"]
            self._lines.append(f"{axes['workload']} {within_workload(axes)}: {cell_line(record)}")

    def say(self, text: str) -> None:
        """A line that stays, above the display."""
        self._console.print(f"[{time.monotonic() - self._began:6.0f} s] {text}", markup=False, highlight=False)

    def end(self, reason: EndReason, tally: Tally) -> None:
        """Closes the display."""
        self._live.stop()
        super().end(reason, tally)

    def _draw(self, tally: Tally) -> None:
        if time.monotonic() - self._drawn < _LIVE_S:
            return
        self._drawn = time.monotonic()
        self._live.update(self._picture(tally), refresh=True)

    def _picture(self, tally: Tally) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        bar = ProgressBar(total=max(tally.cells, 1), completed=tally.cells - tally.left, width=60)
        rows = [f"now: {self._current}", *(f"  {line}" for line in self._lines)]
        rows += [f"best of {line}" for line in self._bests.lines()]
        below = Text("\n".join(rows), overflow="ellipsis", no_wrap=True)
        return Group(Text(standing(tally, self._pace)), bar, below)
