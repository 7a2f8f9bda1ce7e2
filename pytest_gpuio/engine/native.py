"""The door to the compiled extension: loaded at first use, errno turned into EngineError."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from pytest_gpuio.core.cufile_codes import cufile_text, is_cufile_code
from pytest_gpuio.core.errors import EngineError, errno_text


@cache
def native() -> Any:
    """The extension module, with cffi's ``ffi`` and ``lib``; engines named in ``$GPUIO_ENGINE_PATH`` are loaded.

    Raises:
        EngineError: it is not there, does not fit this interpreter, or a named engine cannot be loaded.
    """
    try:
        import pytest_gpuio._engine as extension
    except ImportError as error:
        raise EngineError(
            f"the compiled engine is missing ({error}): run `pip install .` in the checkout and start `pytest`, not "
            "`python -m pytest`, which would find the sources without it"
        ) from error
    for path in filter(None, os.environ.get("GPUIO_ENGINE_PATH", "").split(os.pathsep)):
        _load_named(extension, path)
    return extension


def _load_named(extension: Any, path: str) -> None:
    why = extension.ffi.new("struct gpuio_why *")
    out = extension.ffi.new("const struct gpuio_engine **")
    # A bare name would be searched for in the system's library folders.
    code = extension.lib.gpuio_engine_load(os.fsencode(Path(path).absolute()), out, why)
    if code:
        sentence = extension.ffi.string(why.text).decode(errors="backslashreplace")
        raise EngineError(f"GPUIO_ENGINE_PATH: {sentence}", -code)


def text(chars: Any) -> str:
    """A C string as str; unknown bytes are shown as escapes."""
    raw: bytes = native().ffi.string(chars)
    return raw.decode(errors="backslashreplace")


def new_why() -> Any:
    """A fresh ``struct gpuio_why *``."""
    return native().ffi.new("struct gpuio_why *")


def check(code: int, why: Any, what: str) -> None:
    """Raise when a call of the engine failed.

    Args:
        code: 0 or more, or -errno.
        why: the call's ``struct gpuio_why *``, or None.
        what: what was tried; used when the engine has no sentence of its own.

    Raises:
        EngineError: with the engine's sentence and the errno, or with cuFile's code and its remedy.
    """
    if code >= 0:
        return
    sentence = text(why.text) if why is not None else ""
    if sentence and is_cufile_code(code):
        sentence = f"{sentence}: {cufile_text(code)}"
    raise EngineError(sentence or f"{what} failed: {errno_text(code)}", -code)
