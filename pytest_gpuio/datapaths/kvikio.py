"""``kvikio``: NVIDIA's KvikIO, a pool of threads over cuFile or over its own POSIX code."""

from pytest_gpuio.datapaths.base import DataPath, Evidence, Proof, describe_kernel_io
from pytest_gpuio.datapaths.cufile_route import find_route


def _prove(evidence: Evidence) -> Proof:
    sentences = describe_kernel_io(evidence)
    if evidence.engine != "kvikio":
        return Proof(None, sentences)
    if evidence.cufile is None:
        return Proof("kvikio", (*sentences, "cuFile's counters could not be read: the route is unknown"), "unknown")
    # KvikIO's own label says whether cuFile was called, not which way the bytes went.
    found = find_route(evidence.cufile)
    return Proof("kvikio", (*sentences, *found.sentences), found.route)


KVIKIO = DataPath(
    name="kvikio",
    title="KvikIO: a pool of threads over cuFile, or over its own POSIX code",
    engine="kvikio",
    needs=("engine", "kvikio"),
    family="kvikio",
    synchronous=False,
    caches=("direct", "cold", "hot"),
    destinations=("gpu",),
    cufile="compat",
    prove=_prove,
)
