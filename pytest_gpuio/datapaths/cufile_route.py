"""The one place where cuFile's route is told: from evidence to a label, by a pure function."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from pytest_gpuio.engine.cufile_counters import CuFileCounters

#: ``direct_nvidia_fs`` and ``direct_p2pdma``: device to GPU memory, the CPU touches no byte. ``compat``: copied through
#: host memory. ``mixed``: some of each. ``bypassed``: cuFile was there and moved nothing. ``unknown``: nothing to be
#: believed says which.
Route = Literal["direct_nvidia_fs", "direct_p2pdma", "compat", "mixed", "bypassed", "unknown"]

DIRECT: Final[tuple[Route, ...]] = ("direct_nvidia_fs", "direct_p2pdma")
#: Below this share of the completed bytes at the block layer, they came from a cache: nothing direct about them.
_DEVICE_SHARE: Final = 0.95


@dataclass(frozen=True, slots=True)
class CuFileEvidence:
    """What was seen of cuFile over the measured stretch.

    Attributes:
        counters: growth of cuFile's own counters; None = there are none.
        moved: bytes that the cell completed over the same stretch.
        strict: the driver was opened with falling back forbidden, and says so itself; None = it does not say.
        o_direct: the file is open with O_DIRECT; None = unknown.
        device_ratio: block-layer bytes / completed bytes; None = the target has no counters.
        nvidia_fs_loaded: the kernel module is there; None = unknown.
        nvidia_fs_ops: reads and writes that the module counted over the stretch; None = it does not count.
    """

    counters: CuFileCounters | None
    moved: int
    strict: bool | None = None
    o_direct: bool | None = None
    device_ratio: float | None = None
    nvidia_fs_loaded: bool | None = None
    nvidia_fs_ops: int | None = None


@dataclass(frozen=True, slots=True)
class RouteFound:
    """The label, and why, in sentences."""

    route: Route
    sentences: tuple[str, ...]

    @property
    def direct(self) -> bool:
        """Device to GPU memory, all of it."""
        return self.route in DIRECT


@dataclass(frozen=True, slots=True)
class _Sums:
    """Single requests and batches together."""

    total: int
    nvfs: int
    p2p: int
    fell_back: int
    other: int
    bytes: int


def _sums(counters: CuFileCounters) -> _Sums:
    return _Sums(
        total=counters.total + counters.batch_total,
        nvfs=counters.nvfs + counters.batch_nvfs,
        p2p=counters.p2p + counters.batch_p2p,
        fell_back=counters.posix + counters.batch_aio + counters.batch_io_uring + counters.batch_posix,
        other=counters.unaligned + counters.batch_mixed,
        bytes=counters.bytes + counters.batch_bytes,
    )


def find_route(evidence: CuFileEvidence) -> RouteFound:
    """The route that all of the evidence supports.

    cuFile's counters say which way requests went; what is independent of them can only take a direct label away.
    Without counters, with counters that do not cover what was moved, or against a contradiction, it is unknown.
    """
    if evidence.counters is None:
        return RouteFound("unknown", ("cuFile has no counters here, so nothing tells which way requests took",))
    sums = _sums(evidence.counters)
    told = (
        f"cuFile counted {sums.total:,} requests: {sums.nvfs:,} by nvidia-fs, {sums.p2p:,} by PCI peer-to-peer DMA, "
        f"{sums.fell_back:,} through host memory, {sums.other:,} unaligned or mixed"
    )
    # Each by itself: in a sum, one that ran backwards could hide a request that fell back.
    if min(asdict(evidence.counters).values()) < 0:
        return RouteFound("unknown", (told, "a counter ran backwards"))
    if evidence.moved and evidence.counters.nothing:
        return RouteFound("bypassed", ("no request went through cuFile",))
    if sums.total == 0 or sums.bytes < evidence.moved:
        missing = (
            f"they hold {sums.bytes:,} of the {evidence.moved:,} bytes moved: the rest went past cuFile's counters"
        )
        return RouteFound("unknown", (told, missing))
    route = _by_counters(sums)
    if route not in DIRECT:
        return RouteFound(route, (told,))
    against = _contradictions(route, evidence)
    if against:
        return RouteFound("unknown", (told, *against))
    return RouteFound(route, (told,))


def _by_counters(sums: _Sums) -> Route:
    if sums.nvfs == sums.total and not (sums.p2p or sums.fell_back or sums.other):
        return "direct_nvidia_fs"
    if sums.p2p == sums.total and not (sums.nvfs or sums.fell_back or sums.other):
        return "direct_p2pdma"
    if sums.fell_back >= sums.total and not (sums.nvfs or sums.p2p):
        return "compat"
    if sums.nvfs or sums.p2p or sums.fell_back:
        return "mixed"
    return "unknown"


def _contradictions(route: Route, evidence: CuFileEvidence) -> tuple[str, ...]:
    found = []
    if evidence.o_direct is not True:
        found.append("the file is not known to be open with O_DIRECT, so the page cache may have answered")
    if evidence.device_ratio is not None and evidence.device_ratio < _DEVICE_SHARE:
        found.append(f"the block layer saw {evidence.device_ratio:.3f} of the bytes: the rest came from a cache")
    if route == "direct_nvidia_fs":
        if evidence.nvidia_fs_loaded is False:
            found.append("nvidia-fs is not loaded, so it cannot have moved them")
        if evidence.nvidia_fs_ops == 0:
            found.append("nvidia-fs itself counted no request")
    return tuple(found)
