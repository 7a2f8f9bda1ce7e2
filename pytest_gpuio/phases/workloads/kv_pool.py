"""A key-value cache on storage: its files, and where the pieces of a request lie."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_gpuio.phases import quantiles
from pytest_gpuio.phases.arrivals import Arrivals
from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.models import GRANULARITIES, active_parameters, find, kv_geometry
from pytest_gpuio.phases.models.architecture import DTYPES
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.scaling import check_share
from pytest_gpuio.phases.workloads.binding import model_parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

FRAGMENT_TOKENS: Final = 16
PAGE_TOKENS: Final = 512
#: LMCache's file of a chunk starts with so much metadata; the cache itself follows.
METADATA: Final = 4096
_KINDS: Final = ("fragment", *GRANULARITIES, "object")

#: Pages of 512 tokens per request that hits, by share: Mooncake's traces.
HITS: Final[Mapping[str, Mapping[float, float]]] = MappingProxyType(
    {
        "conversation": MappingProxyType({0.0: 1, 0.5: 12, 0.9: 49, 0.99: 147, 1.0: 240}),
        "synthetic": MappingProxyType({0.0: 1, 0.5: 35, 0.9: 89, 0.99: 140, 1.0: 373}),
    }
)
#: Pages per request that were not there yet.
NEW: Final[Mapping[str, Mapping[float, float]]] = MappingProxyType(
    {
        "conversation": MappingProxyType({0.0: 1, 0.5: 5, 0.9: 38, 0.99: 141, 1.0: 247}),
        "synthetic": MappingProxyType({0.0: 1, 0.5: 1, 0.9: 38, 0.99: 98, 1.0: 373}),
    }
)

SHAPE: Final = (
    model_parameter("llama-3.1-8b"),
    Parameter("granularity", "block", "piece in which the cache is stored", choices=_KINDS),
    Parameter("tensor_parallel", 1, "ranks over which heads are spread; this is one of them", least=1, most=1024),
    Parameter("kv_dtype", "fp16", "type of the cache", choices=tuple(DTYPES)),
    Parameter("trace", "conversation", "whose request sizes", choices=tuple(HITS)),
    Parameter("requests", 64, "requests of a pass", least=1, most=1_000_000),
    Parameter("pool_gib", 64, "cache on storage at scale 1, in GiB", least=1, most=1 << 20),
    Parameter("rate", 0.0, "requests per second, open loop; 0 = closed loop", least=0.0, most=1e6),
    Parameter("cv", 1.0, "coefficient of variation of the gaps (1 = Poisson)", least=0.05, most=20.0),
    Parameter("clients", 4, "requests at a time in the closed loop", least=1, most=65_535),
)


class Pool(NamedTuple):
    """The store.

    Attributes:
        kind: granularity. slots: pieces it holds. tokens: of a piece.
        piece: bytes of a piece; a fragment's piece is a block, all of its fragments together.
        requests: I/O requests a piece takes: 1, or a fragment per layer and region.
        files: of the store.
    """

    kind: str
    slots: int
    tokens: int
    piece: int
    requests: int
    files: Files


def lay_out(
    *, model: str, granularity: str, tensor_parallel: int, kv_dtype: str, pool_gib: int, scale: float, most: int
) -> Pool:
    """The store for ``scale`` of a pool.

    Args:
        model: which.
        granularity: how it is cut.
        tensor_parallel: ranks over which heads are spread.
        kv_dtype: type of the cache.
        pool_gib: GiB at scale 1.
        scale: of it.
        most: pieces of the largest request, which the pool must hold.

    Raises:
        ConfigError: a scale out of range, or a model whose heads cannot be spread so.
    """
    check_share(scale)
    geometry = kv_geometry(find(model), kv_dtype, tensor_parallel)
    tokens = piece_tokens(granularity)
    piece = tokens * geometry.token_bytes
    slots = max(most, round((pool_gib << 30) * scale / piece))
    if granularity == "chunk":
        files = Files.of({f"chunk_{slot:05}.kv": METADATA + piece for slot in range(slots)})
    else:
        files = Files.of({"pool.kv": slots * piece})
    fragments = geometry.layers * geometry.regions if granularity == "fragment" else 1
    return Pool(granularity, slots, tokens, piece, fragments, files)


def piece_tokens(granularity: str) -> int:
    """Tokens of one piece."""
    return {"fragment": FRAGMENT_TOKENS, "object": PAGE_TOKENS}.get(granularity) or GRANULARITIES[granularity]


def pieces(
    sizes: Mapping[float, float], granularity: str, count: int, scale: float, draw: np.random.Generator
) -> NDArray[np.int64]:
    """Pieces of each request, at least one; of all requests together ``scale`` of what they would be."""
    import numpy as np

    pages = np.rint(quantiles.draw(sizes, count, draw))
    whole = np.ceil(pages * PAGE_TOKENS / piece_tokens(granularity))
    # What is rounded off one request goes to the next.
    return np.maximum(1, np.diff(np.rint(np.cumsum(whole) * scale), prepend=0)).astype(np.int64)


def prefill_ns(
    trace: str, count: int, scale: float, draw: np.random.Generator, model: str, tensor_parallel: int
) -> NDArray[np.int64]:
    """How long each request's new tokens take to compute; as short as the prefixes are at this scale."""
    from pytest_gpuio.phases.kv_cache import Prefill

    pages = quantiles.draw(NEW[trace], count, draw)
    speed = Prefill.of_model(active_parameters(find(model)), gpus=tensor_parallel)
    return speed.ns((pages * PAGE_TOKENS * scale).astype("int64"))


def runs(counts: NDArray[np.int64], slots: int, length: float, draw: np.random.Generator) -> NDArray[np.int64]:
    """Slots of each request's pieces: stretches that follow each other, of the mean length given, at random places."""
    import numpy as np

    total = int(counts.sum())
    fresh = draw.random(total) < 1.0 / length
    fresh[np.cumsum(counts) - counts] = True
    start = np.flatnonzero(fresh)
    stretch = np.diff(np.append(start, total))
    return (np.repeat(draw.integers(0, slots, len(start)) - start, stretch) + np.arange(total)) % slots


def requests(
    pool: Pool, counts: NDArray[np.int64], slot: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """File, offset, length and request of each I/O.

    Fragments lie in one region per layer, and of keys and of values; an object is all pieces of a request as one.
    """
    import numpy as np

    owner = np.repeat(np.arange(len(counts)), counts)
    if pool.kind == "fragment":
        size = pool.piece // pool.requests
        region = np.tile(np.arange(pool.requests), len(slot))
        offset = region * pool.slots * size + np.repeat(slot, pool.requests) * size
        # All blocks of the first layer, then all of the second: the order in which layers are needed.
        group = np.repeat(owner, pool.requests)
        order = np.lexsort((region, group))
        return np.zeros(len(offset), np.int64), offset[order], np.full(len(offset), size), group[order]
    if pool.kind == "object":
        first = np.cumsum(counts) - counts
        begin = np.minimum(slot[first], pool.slots - counts)
        return np.zeros(len(counts), np.int64), begin * pool.piece, counts * pool.piece, np.arange(len(counts))
    if pool.kind == "chunk":
        return slot, np.full(len(slot), METADATA), np.full(len(slot), pool.piece), owner
    return np.zeros(len(slot), np.int64), slot * pool.piece, np.full(len(slot), pool.piece), owner


def starts(count: int, rate: float, cv: float, clients: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Intended start and chain of each request: Gamma arrivals that wait for none, or clients that take turns."""
    import numpy as np

    if not rate:
        return np.full(count, -1), np.arange(count) % min(clients, count)
    return np.array(Arrivals("gamma", rate, cv).schedule(count, seed), np.int64), np.arange(count)
