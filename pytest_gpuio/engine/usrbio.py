"""3FS's client library: which one, and whether its rings take a target."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_gpuio.engine.native import check, native, new_why


def find_usrbio() -> str | None:
    """``$GPUIO_USRBIO``; None when it is not set, and the system's ``libhf3fs_api_shared.so`` is tried."""
    return os.environ.get("GPUIO_USRBIO") or None


def accepts_usrbio(path: Path) -> None:
    """Whether files at an existing path can be reached by rings.

    Raises:
        EngineError: the library cannot be opened (ELIBACC), or the path is on no 3FS (EXDEV).
    """
    ffi, why = native().ffi, new_why()
    library = find_usrbio()
    named = ffi.NULL if library is None else ffi.new("char[]", os.fsencode(library))
    code = native().lib.gpuio_usrbio_accepts(named, os.fsencode(path), why)
    check(code, why, f"asking 3FS's client about {path}")
