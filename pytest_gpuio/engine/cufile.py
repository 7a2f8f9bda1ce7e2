"""cuFile's driver in this process: found, opened once under settings of ours, asked what it is and counts, closed."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine.cufile_counters import CuFileCounters, decode
from pytest_gpuio.engine.native import check, native, new_why

#: Bit of ``control_flags``: requests may fall back to copies through host memory.
MAY_FALL_BACK: Final = 0x2
_ENGINES: Final = frozenset({"cufile", "cufile_batch", "cufile_stream"})


@dataclass(frozen=True, slots=True)
class CuFileInfo:
    """What the library and its driver say; sizes in bytes.

    Attributes:
        version: 1000 x major + 10 x minor of libcufile; 0 = unknown.
        counts: 1 = its counters are on.
        properties_error: code why nothing that follows is known; 0 = known.
        nvfs_major, nvfs_minor: version of nvidia-fs; 0.0 = not in use.
        status_flags, control_flags, feature_flags: as ``CUfileDrvProps_t`` has them.
        max_batch: largest batch.
        poll_threshold_bytes: requests up to this size are polled for, in poll mode. max_direct_bytes: larger ones are
            split. max_cache_bytes, per_buffer_cache_bytes, max_pinned_bytes: of bounce buffers and pinned memory.
    """

    version: int
    counts: int
    properties_error: int
    nvfs_major: int
    nvfs_minor: int
    status_flags: int
    control_flags: int
    feature_flags: int
    max_batch: int
    poll_threshold_bytes: int
    max_direct_bytes: int
    max_cache_bytes: int
    per_buffer_cache_bytes: int
    max_pinned_bytes: int

    @property
    def may_fall_back(self) -> bool | None:
        """Whether the driver allows copies through host memory; None = it does not say."""
        return None if self.properties_error else bool(self.control_flags & MAY_FALL_BACK)

    @property
    def release(self) -> str:
        """``1.20``, or ``unknown``."""
        return f"{self.version // 1000}.{self.version % 1000 // 10}" if self.version else "unknown"


class CuFile:
    """The open driver; one per process. Every run on cuFile must be closed before it.

    Args:
        library: the libcufile; None = search.

    Raises:
        EngineError: there is no library, or the driver does not open (errno is cuFile's code).
    """

    def __init__(self, library: str | None = None) -> None:
        ffi, lib = native().ffi, native().lib
        out, why = ffi.new("struct gpuio_cufile **"), new_why()
        path = ffi.NULL if library is None else ffi.new("char[]", os.fsencode(library))
        check(lib.gpuio_cufile_open(path, out, why), why, "opening cuFile's driver")
        self.library = library
        self._cufile: Any = out[0]
        info = ffi.new("struct gpuio_cufile_info *")
        lib.gpuio_cufile_describe(self._cufile, info)
        self.info = CuFileInfo(**{field.name: getattr(info, field.name) for field in fields(CuFileInfo)})

    @property
    def _open(self) -> Any:
        if self._cufile is None:
            raise EngineError("cuFile's driver is closed")
        return self._cufile

    def counters(self) -> CuFileCounters | None:
        """What was counted since the driver was opened; None where the library does not count.

        Raises:
            EngineError: the driver is closed, or cannot be asked.
        """
        if not self.info.counts:
            return None
        levels = []
        for level in (1, 3):
            words, why = native().ffi.new("uint64_t[]", int(native().lib.GPUIO_CUFILE_WORDS)), new_why()
            check(native().lib.gpuio_cufile_counters(self._open, level, words, why), why, "reading cuFile's counters")
            levels.append(list(words))
        return decode(levels[0], levels[1], self.info.version)

    def accepts(self, fd: int) -> None:
        """Register an open file and take it back.

        Raises:
            EngineError: cuFile refuses it; errno is its code.
        """
        why = new_why()
        check(native().lib.gpuio_cufile_accepts(self._open, fd, why), why, "registering the file with cuFile")

    def close(self) -> None:
        """Close the driver; closing twice does nothing.

        Raises:
            EngineError: cuFile refuses, since something is still registered.
        """
        if self._cufile is None:
            return
        cufile, self._cufile = self._cufile, None
        check(native().lib.gpuio_cufile_close(cufile), None, "closing cuFile's driver")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def needs_cufile(engine: str) -> bool:
    """True for the engines that are driven through libcufile."""
    return engine in _ENGINES


def find_cufile() -> str | None:
    """The libcufile: ``$GPUIO_CUFILE``, else the one of PyPI's nvidia-cufile wheel, which CUDA libraries prefer, too.

    Returns:
        Its path; None when there is neither, and the system's ``libcufile.so.0`` is then tried.
    """
    named = os.environ.get("GPUIO_CUFILE")
    if named:
        return named
    found = importlib.util.find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for library in sorted(Path(folder).glob("*/lib/libcufile.so.0"), reverse=True):
            return str(library)
    return None


def mapped_libraries(name: str = "libcufile.so", root: str = "/") -> tuple[str, ...]:
    """Files of a library that this process has mapped, as ``/proc/self/maps`` shows them: what is really in use."""
    try:
        lines = Path(root, "proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    paths = {line.split(maxsplit=5)[5] for line in lines if line.count(" ") >= 5 and name in line}
    return tuple(sorted(path for path in paths if Path(path).name.startswith(name)))
