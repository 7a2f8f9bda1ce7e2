"""Measuring children: start, deadline, messages, death, and the host-wide lock; knows nothing of what is measured."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytest_gpuio.isolation.child import Child
    from pytest_gpuio.isolation.lock import HostLock
    from pytest_gpuio.isolation.pool import Children

__all__ = ["Child", "Children", "HostLock"]


def __getattr__(name: str) -> object:
    """The parent's names, loaded when they are first used: a child imports this package too and needs none of them."""
    from importlib import import_module

    rooms = {"Child": "child", "Children": "pool", "HostLock": "lock"}
    if name not in rooms:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{rooms[name]}"), name)
