"""Child side: cuFile's driver, opened once under one set of settings, and what it counts over a measured stretch."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.core.errors import CapabilityMissing, EngineError, GpuioError
from pytest_gpuio.datapaths.base import CuFileMode
from pytest_gpuio.engine import CuFile, find_cufile, mapped_libraries
from pytest_gpuio.engine.cufile_settings import CuFileSettings, publish, settings
from pytest_gpuio.machine import nvidia_fs

_LIBRARY: Final = "libcufile.so"


@dataclass(frozen=True, slots=True)
class OpenCuFile:
    """The driver of this child."""

    mode: CuFileMode
    driver: CuFile
    settings: CuFileSettings
    #: A library of others uses it, too, and may still do so when this child ends.
    shared: bool


_opened: OpenCuFile | EngineError | None = None


def opened(mode: CuFileMode, *, shared: bool = False) -> OpenCuFile:
    """The driver, opened when first asked for; one child has one mode.

    Args:
        mode: ``strict`` forbids falling back to copies through host memory.
        shared: a library that is loaded by now has brought a libcufile of its own choice, or will: its counters are
            those that count, so its copy is opened.

    Raises:
        EngineError: it does not open; asked again, the same is raised without trying again.
        ConfigError: the user's cufile.json is none.
    """
    global _opened  # one process has one driver
    if _opened is None:
        wanted = settings(allow_compat=mode == "compat")
        publish(wanted)
        try:
            mapped = mapped_libraries(_LIBRARY) if shared else ()
            _opened = OpenCuFile(mode, CuFile(mapped[0] if len(mapped) == 1 else find_cufile()), wanted, shared)
        except EngineError as error:
            _opened = error
    if isinstance(_opened, EngineError):
        raise _opened
    if _opened.mode != mode:
        raise EngineError(f"cuFile is open in this child as {_opened.mode!r}, and {mode!r} needs a child of its own")
    return _opened


def close() -> None:
    """Close the driver, where it is open and ours: before the process ends, since some releases crash otherwise.

    Under a library that still has buffers and threads in it, closing is what crashes; a child ends without running
    anything at exit, so there it can stay open.
    """
    global _opened
    found, _opened = _opened, None
    if isinstance(found, OpenCuFile) and not found.shared:
        found.driver.close()


def check_file(fd: int) -> None:
    """Whether the open driver takes an open file.

    Raises:
        CapabilityMissing: it does not, with cuFile's reason.
    """
    if isinstance(_opened, OpenCuFile):
        try:
            _opened.driver.accepts(fd)
        except EngineError as error:
            raise CapabilityMissing(str(error)) from error


def try_target(mode: CuFileMode, target: str) -> None:
    """Register an empty file in the target's folder, or the target itself, and take it back; nothing is left behind.

    Raises:
        EngineError: cuFile refuses it, or the driver does not open.
        OSError: no file can be opened there.
    """
    driver = opened(mode).driver
    path = Path(target)
    with ExitStack() as stack:
        name = target
        if path.is_dir():
            # It must have a name, since cuFile opens it once more by that; it has none when this returns.
            name = stack.enter_context(tempfile.NamedTemporaryFile(dir=path, prefix=".gpuio-probe-")).name
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
        stack.callback(os.close, fd)
        driver.accepts(fd)


def describe(mode: CuFileMode, target: str | None) -> dict[str, Any]:
    """For ``gpuio probe``: :func:`facts` and ``takes_target``, or why the driver does not open; nulls else.

    Returns:
        ``facts``, ``reason`` (of the driver), ``takes_target``, ``target_reason``.
    """
    found: dict[str, Any] = {"facts": None, "reason": None, "takes_target": None, "target_reason": None}
    try:
        opened(mode)
    except GpuioError as error:
        return found | {"reason": str(error)}
    found["facts"] = facts()
    if target is None:
        return found
    try:
        try_target(mode, target)
    except (GpuioError, OSError) as error:
        return found | {"takes_target": False, "target_reason": str(error)}
    return found | {"takes_target": True}


def facts() -> dict[str, Any]:
    """Settings in effect, as JSON-able values: library, version, limits, and the hash of the settings.

    Raises:
        EngineError: the driver is not open.
    """
    if not isinstance(_opened, OpenCuFile):
        raise EngineError("cuFile is not open in this child")
    info = _opened.driver.info
    return {
        "mode": _opened.mode,
        "libraries": list(mapped_libraries(_LIBRARY)),
        "release": info.release,
        "settings_sha256": _opened.settings.sha256,
        "settings_source": _opened.settings.source,
        "may_fall_back": info.may_fall_back,
        "properties": asdict(info),
    }


class CuFileMeter:
    """Looks at the counters at both ends of a measured stretch.

    Args:
        mode: as :attr:`DataPath.cufile`.
    """

    def __init__(self, mode: CuFileMode) -> None:
        self._open = opened(mode)
        self.begin()

    def begin(self) -> None:
        """The stretch begins."""
        self._before = self._open.driver.counters()
        self._module = nvidia_fs()

    def finish(self) -> dict[str, Any]:
        """What grew, with the settings in effect; ``counters`` is null where nothing can be believed."""
        after, module = self._open.driver.counters(), nvidia_fs()
        growth = None if self._before is None or after is None else after - self._before
        found = facts()
        if len(found["libraries"]) != 1:
            # Two copies in one process: the counters of one say nothing about requests of the other.
            growth = None
        before_ops = None if self._module is None else self._module.operations
        after_ops = None if module is None else module.operations
        return found | {
            "counters": None if growth is None else growth.to_json(),
            "nvidia_fs_loaded": module is not None,
            "nvidia_fs_version": None if module is None else module.version,
            "nvidia_fs_ops": None if before_ops is None or after_ops is None else after_ops - before_ops,
        }
