"""The engines there are: their names, whether they work here, and loading more of them."""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from pathlib import Path

from pytest_gpuio.core.errors import EngineError, errno_text
from pytest_gpuio.engine.cufile import find_cufile, needs_cufile
from pytest_gpuio.engine.native import check, native, new_why, text
from pytest_gpuio.engine.usrbio import find_usrbio


def engine_names() -> tuple[str, ...]:
    """Names of all engines: built in, then loaded.

    Raises:
        EngineError: the compiled engine is missing.
    """
    lib = native().lib
    return tuple(text(lib.gpuio_engine_at(i).name) for i in range(lib.gpuio_engine_count()))


def engine_is_synchronous(name: str) -> bool:
    """True when the engine has one request in flight per job.

    Raises:
        EngineError: there is no engine of that name.
    """
    engine = native().lib.gpuio_engine_find(name.encode())
    if engine == native().ffi.NULL:
        raise EngineError(f"there is no engine named {name}: there are {', '.join(engine_names())}")
    return bool(engine.flags & native().lib.GPUIO_ENGINE_SYNC)


def probe(name: str, library: str | None = None) -> str | None:
    """Whether an engine works on this machine.

    Args:
        name: the engine.
        library: its library to open at run time; None = search.

    Returns:
        None when it works, else one sentence with the remedy.
    """
    ffi = native().ffi
    if library is None:
        library = find_library(name)
    why = new_why()
    path = ffi.NULL if library is None else ffi.new("char[]", os.fsencode(library))
    code = native().lib.gpuio_engine_probe(name.encode(), path, why)
    if code == 0:
        return None
    return text(why.text) or f"the engine {name} does not work here: {errno_text(code)}"


def find_library(engine: str) -> str | None:
    """The library that an engine opens at run time; None = it needs none, or it is left to the engine's own search."""
    if engine == "io_uring" or engine.startswith("io_uring_"):
        return find_liburing()
    if engine == "usrbio":
        return find_usrbio()
    return find_cufile() if needs_cufile(engine) else None


def load_engine(path: str | os.PathLike[str]) -> str:
    """Load an engine from a shared object that exports a table ``gpuio_engine`` (see ``gpuio.h``).

    Returns:
        Its name.

    Raises:
        EngineError: it cannot be opened (ENOENT), its table is incomplete (EINVAL), it is built for another engine ABI
            (EPROTO), or its name is taken (EEXIST).
    """
    ffi = native().ffi
    # A bare name would be searched for in the system's library folders.
    full = os.fsencode(Path(path).absolute())
    out, why = ffi.new("const struct gpuio_engine **"), new_why()
    check(native().lib.gpuio_engine_load(full, out, why), why, f"loading the engine {path}")
    return text(out[0].name)


def find_liburing() -> str | None:
    """The C library that drives io_uring: ``$GPUIO_LIBURING``, else the one inside PyPI's liburing wheel.

    Returns:
        Its path; None when there is neither, and the engine then tries the system's ``liburing-ffi.so.2`` and
        ``liburing.so.2``.
    """
    return os.environ.get("GPUIO_LIBURING") or _packaged_liburing()


@cache
def _packaged_liburing() -> str | None:
    # Found without importing it: the import would run 3 MB of code that is not needed.
    found = importlib.util.find_spec("liburing")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        library = Path(folder) / "liburing.so"
        if library.is_file():
            return str(library)
    return None
