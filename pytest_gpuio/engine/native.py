"""The door to the compiled extension: loaded at first use, errno turned into EngineError."""

from __future__ import annotations

from functools import cache
from typing import Any

from pytest_gpuio.core.errors import EngineError, errno_text


@cache
def native() -> Any:
    """The extension module, with cffi's ``ffi`` and ``lib``.

    Raises:
        EngineError: it is not there, or does not fit this interpreter.
    """
    try:
        import pytest_gpuio._engine as extension
    except ImportError as error:
        raise EngineError(
            f"the compiled engine is missing ({error}): run `pip install .` in the checkout and start `pytest`, not "
            "`python -m pytest`, which would find the sources without it"
        ) from error
    return extension


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
        EngineError: with the engine's sentence and the errno.
    """
    if code >= 0:
        return
    sentence = text(why.text) if why is not None else ""
    raise EngineError(sentence or f"{what} failed: {errno_text(code)}", -code)
