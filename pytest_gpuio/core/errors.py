"""The errors a person can see, each saying what happened, on what, and the remedy."""

from __future__ import annotations

import errno
import os

from pytest_gpuio.core.cufile_codes import cufile_text, is_cufile_code

#: Above it lie codes of libraries; the module of their texts is no part of a child's start.
_ERRNOS = 4095


class GpuioError(Exception):
    """Base of every error raised on purpose; its text is meant for the user as it stands."""


class ConfigError(GpuioError):
    """What was asked for cannot be done; raised before any I/O."""


class TargetError(GpuioError):
    """The target path or device cannot be used."""


class CapabilityMissing(GpuioError):
    """The machine or target lacks something the cell needs; becomes a skip."""


class EngineError(GpuioError):
    """The compiled engine refused or failed.

    Attributes:
        errno: positive errno, or a code of cuFile (above 5000) or 3FS (above 300000); 0 when the failure has none.
    """

    def __init__(self, message: str, errno_: int = 0) -> None:
        super().__init__(message)
        self.errno = errno_


class ChildDied(GpuioError):
    """The measuring child crashed, hung or was given up; the cell is void and a new child is started."""


class ChildFault(GpuioError):
    """Code in the measuring child raised something nobody expected: a bug; the child itself lives on.

    Attributes:
        traceback: the child's traceback as text, for a bug report.
    """

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback


class CellVoid(GpuioError):
    """An impossible result: the gate that found it and why.

    Attributes:
        gate: name of the validity gate.
    """

    def __init__(self, gate: str, message: str) -> None:
        super().__init__(f"{gate}: {message}")
        self.gate = gate


class TraceError(GpuioError):
    """A trace file that cannot be read as what it says it is; starts with the path, and the line where there is one."""


class RankLost(GpuioError):
    """A process of a run on several ranks has died or does not answer; nothing more can be measured with it."""


class Busy(GpuioError):
    """Another run holds the host-wide lock."""


def errno_text(code: int) -> str:
    """``ENOSPC (No space left on device)`` for 28 or -28; codes of cuFile and 3FS in their own words."""
    code = abs(code)
    if is_cufile_code(code):
        return cufile_text(code)
    if code > _ERRNOS:
        from pytest_gpuio.core.hf3fs_codes import hf3fs_text, is_3fs_code

        if is_3fs_code(code):
            return hf3fs_text(code)
    return f"{errno.errorcode.get(code, f'errno {code}')} ({os.strerror(code)})"
