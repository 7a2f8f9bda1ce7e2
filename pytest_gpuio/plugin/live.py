"""A live line on a terminal for cells that take long; nothing at all anywhere else."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from pytest_gpuio.core.sizes import format_size

if TYPE_CHECKING:
    import pytest

_AFTER_S: Final = 2.0
_SAVE, _RESTORE, _ERASE = "\x1b7", "\x1b8", "\x1b[K"


def describe(values: Mapping[str, Any]) -> str:
    """The progress of a layout or a cell in a few words."""
    if values["stage"] == "overwrite":
        return str(values["text"])
    if values["stage"] == "layout":
        share = values["done"] / max(values["total"], 1)
        return f"laying out {format_size(values['total'])}: {share:.0%}"
    return f"{values['stage']} {values['seconds']:.0f}s, {values['windows']} windows"


class LiveLine:
    """Writes behind the cursor of pytest's own line and leaves no trace."""

    def __init__(self, config: pytest.Config) -> None:
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._writer: Any = getattr(reporter, "_tw", None) if reporter is not None and reporter.isatty else None
        self._capture: Any = config.pluginmanager.get_plugin("capturemanager")
        self._started = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._put(_ERASE)

    def _put(self, text: str) -> None:
        # While a test runs its output is captured, ours included, unless that is lifted.
        with self._capture.global_and_fixture_disabled() if self._capture else nullcontext():
            # Past the writer's own bookkeeping: its idea of the current line must not change.
            file = self._writer._file  # noqa: SLF001
            file.write(text)
            file.flush()

    def show(self, values: Mapping[str, Any]) -> None:
        """Show progress, once the cell has taken longer than two seconds; at once that a device is overwritten."""
        early = time.monotonic() - self._started < _AFTER_S and values["stage"] != "overwrite"
        if self._writer is None or early:
            return
        room = self._writer.fullwidth - self._writer.width_of_current_line - 2
        text = f" {describe(values)}"[: max(room, 0)]
        self._put(f"{_SAVE}{text}{_ERASE}{_RESTORE}")
        self._shown = True
