"""Child side: the one namespace that SPDK drives in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pytest_gpuio.core.errors import EngineError, TargetError
from pytest_gpuio.core.spdk_address import spdk_address
from pytest_gpuio.engine import SpdkNamespace
from pytest_gpuio.targets import FoundContent, lay_out_namespace, refuses_namespace

if TYPE_CHECKING:
    from pytest_gpuio.isolation.serve import Emit

_attached: SpdkNamespace | EngineError | None = None


def attached(target: str, memory_mib: int) -> SpdkNamespace:
    """The namespace, attached when first asked for.

    Args:
        target: as the user spelled it.
        memory_mib: MiB of memory without huge pages; 0 = huge pages.

    Raises:
        EngineError: SPDK is not installed, does not start, cannot attach, or has another namespace in this process.
        TargetError: the kernel has the device.
    """
    global _attached  # one process has one
    address = spdk_address(target)
    if address is None:
        raise TargetError(f"{target} is no namespace for SPDK.")
    if _attached is None:
        # Once more, in the process that touches it.
        reason = refuses_namespace(address)
        if reason is not None:
            raise TargetError(f"{reason}.")
        try:
            _attached = SpdkNamespace(address, memory_mib)
        except EngineError as error:
            _attached = error
    if isinstance(_attached, EngineError):
        raise _attached
    if _attached.address != address:
        raise EngineError(f"SPDK has {_attached.address} in this child, and {address} needs a child of its own")
    return _attached


def close() -> None:
    """Detach, where it is attached: the controller is told before the process ends."""
    global _attached
    found, _attached = _attached, None
    if isinstance(found, SpdkNamespace):
        found.close()


def describe() -> dict[str, Any] | None:
    """Model, firmware, sector, largest transfer and bytes; None when nothing is attached."""
    return asdict(_attached.info) if isinstance(_attached, SpdkNamespace) else None


def lay_out(
    params: dict[str, Any], emit: Emit, progress: Callable[[int, int], None], stop: Callable[[], bool]
) -> dict[str, Any]:
    """As ``lay_out`` of the child, for a namespace."""
    namespace = attached(params["path"], params["spdk_mib"])
    target = lay_out_namespace(
        namespace,
        params["data_bytes"],
        writes=params["writes"],
        allowed=params["allow_destroy"],
        force=params["force"],
        announce=lambda text: emit("progress", stage="overwrite", text=text),
        progress=progress,
        stop=stop,
    )
    found = isinstance(target, FoundContent)
    if found:
        text = f"{namespace.address} is read as it is and never written; data that can be checked needs its permission"
        emit("progress", stage="overwrite", text=text)
    return {
        "path": params["path"],
        "data_offset": target.data_offset,
        "data_bytes": target.data_bytes,
        "pattern_seed": 0 if isinstance(target, FoundContent) else target.pattern_seed,
        "foreign_zeros": target.zero_share if isinstance(target, FoundContent) else None,
        "alignment": namespace.info.sector,
        "memory_alignment": None,
        "alignment_source": "sector of the namespace",
    }
