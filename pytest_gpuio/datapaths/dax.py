"""``dax``: persistent memory by loads and stores of a map that has no page cache behind it."""

from pytest_gpuio.datapaths.base import DataPath, Evidence, Proof

_ANSWERS = {True: "yes", False: "no", None: "unknown"}


def _prove(evidence: Evidence) -> Proof:
    """Whatever else was asked for: a map without DAX is ``mmap``, and is called so."""
    sentences = (
        f"engine {evidence.engine}" + (f" ({evidence.facts})" if evidence.facts else ""),
        f"STATX_ATTR_DAX of the file: {_ANSWERS[evidence.dax]}",
        f"map with synchronous faults (MAP_SYNC; sf in smaps): {_ANSWERS[evidence.map_sync]}",
        "loads and stores: a queue depth has no meaning, one request at a time per job",
    )
    if evidence.engine != "dax":
        return Proof(None, sentences)
    return Proof("dax" if evidence.dax or evidence.map_sync else "mmap", sentences)


DAX = DataPath(
    name="dax",
    title="loads and stores on persistent memory, without page cache",
    engine="dax",
    needs=("engine", "dax"),
    family="posix",
    synchronous=True,
    # Past the page cache, and that without a form that would use it.
    caches=("direct",),
    mapped=True,
    prove=_prove,
)
