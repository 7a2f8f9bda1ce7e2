"""Exceptions of a child as JSON, and back as the same class in its parent."""

from __future__ import annotations

from pytest_gpuio.core import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

#: Longest text sent of a message and of a traceback, in characters: a failure must always fit into a line.
_MESSAGE_LIMIT: Final = 8_192
_TRACEBACK_LIMIT: Final = 65_536

#: Classes whose only argument is their message; an unknown subclass travels as the nearest of them.
_PLAIN: Final[dict[str, type[errors.GpuioError]]] = {
    kind.__name__: kind
    for kind in (
        errors.GpuioError,
        errors.ConfigError,
        errors.TargetError,
        errors.CapabilityMissing,
        errors.TraceError,
        errors.ChildDied,
        errors.RankLost,
        errors.Busy,
    )
}


def encode_failure(error: Exception, where: str) -> dict[str, Any]:
    """What is sent of an exception: kind, message, and the attributes of its class.

    Args:
        error: any exception; one that is no :class:`GpuioError` becomes a :class:`ChildFault` with its traceback.
        where: what the child was doing, for the text of a fault.
    """
    match error:
        case errors.EngineError():
            return {"kind": "EngineError", "message": str(error)[:_MESSAGE_LIMIT], "errno": error.errno}
        case errors.CellVoid():
            message = str(error).removeprefix(f"{error.gate}: ")
            return {"kind": "CellVoid", "message": message[:_MESSAGE_LIMIT], "gate": error.gate}
        case errors.ChildFault():
            message, trace = str(error), error.traceback
        case errors.GpuioError():
            kind = next(base.__name__ for base in type(error).__mro__ if base in _PLAIN.values())
            return {"kind": kind, "message": str(error)[:_MESSAGE_LIMIT]}
        case _:
            import traceback  # only a fault pays for it, not every start

            last = traceback.format_exception_only(error)[-1].strip()
            message = f"unexpected error in {where}: {last}"
            trace = "".join(traceback.format_exception(error))
    return {"kind": "ChildFault", "message": message[:_MESSAGE_LIMIT], "traceback": trace[-_TRACEBACK_LIMIT:]}


def decode_failure(failure: Mapping[str, Any]) -> errors.GpuioError:
    """The exception to raise in the parent; an unknown kind becomes a plain :class:`GpuioError`."""
    message = str(failure.get("message", ""))
    match failure.get("kind"):
        case "EngineError":
            return errors.EngineError(message, int(failure.get("errno", 0)))
        case "CellVoid":
            return errors.CellVoid(str(failure.get("gate", "")), message)
        case "ChildFault":
            return errors.ChildFault(message, str(failure.get("traceback", "")))
        case kind:
            return _PLAIN.get(str(kind), errors.GpuioError)(message)
