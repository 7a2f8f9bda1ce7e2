"""Vector search on storage: each query follows a graph whose nodes lie in sectors, as DiskANN does."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import Records
from pytest_gpuio.phases.scaling import share
from pytest_gpuio.phases.workloads import kv_pool
from pytest_gpuio.phases.workloads.binding import by_name

_SECTOR: Final = 4096
_FLOAT: Final = 4
_ID: Final = 4


def node_request(dimension: int, degree: int) -> tuple[int, int]:
    """Nodes that share a sector (0 = none do), and bytes of the request that reads a node."""
    node = dimension * _FLOAT + (degree + 1) * _ID
    together = _SECTOR // node
    return together, _SECTOR if together else -(-node // _SECTOR) * _SECTOR


def records(
    *,
    vectors: int,
    dimension: int,
    degree: int,
    search_list: int,
    beam: int,
    queries: int,
    clients: int,
    rate: float,
    scale: float,
    seed: int,
) -> Records:
    """A group per query: hop after hop, each of ``beam`` nodes at a time."""
    import numpy as np

    draw = np.random.default_rng(seed)
    together, request = node_request(dimension, degree)
    places = -(-share(vectors, scale, beam) // max(1, together))
    count = share(queries, scale)
    hops = -(-search_list // beam)
    times, chain = kv_pool.starts(count, rate, 1.0, clients, seed)
    return Records.build(
        Files.of({"disk.index": places * request}),
        offset=draw.integers(0, places, count * hops * beam) * request,
        length=request,
        group=np.repeat(np.arange(count), hops * beam),
        barrier=np.tile(np.arange(hops * beam) % beam == 0, count),
        time_ns=times,
        chain=chain,
        stages=("query",),
    )


MODEL: Final = RecordModel(
    "inference/vector_read",
    "Queries of a vector index follow its graph, several nodes at a time, each hop after the one before.",
    source="DiskANN: a node is its vector and neighbours, 4 KiB sectors, a beam of reads per hop, about search_list / "
    "beam hops; MLPerf Storage's vector preview: 1,536 dimensions, 64 neighbours, search list 200.",
    build=by_name(records),
    deciding="completion",
    parameters=(
        Parameter("vectors", 1_000_000, "of the index at scale 1", least=1, most=1 << 40),
        Parameter("dimension", 1536, "of a vector, float32", least=1, most=1 << 20),
        Parameter("degree", 64, "neighbours of a node", least=1, most=65_536),
        Parameter("search_list", 200, "nodes that a query visits", least=1, most=65_536),
        Parameter("beam", 4, "reads of a hop", least=1, most=1024),
        Parameter("queries", 4096, "queries of a pass at scale 1", least=1, most=1 << 24),
        Parameter("clients", 16, "queries at a time in the closed loop", least=1, most=65_535),
        Parameter("rate", 0.0, "queries per second (Poisson), open loop; 0 = closed loop", least=0.0, most=1e7),
    ),
    scale=1 / 16,
    bs=8 << 10,
    qd=64,
    note="not an MLPerf submission",
)
