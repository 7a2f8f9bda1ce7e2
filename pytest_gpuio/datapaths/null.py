"""``null``: requests complete at once and move nothing; what it costs is what the tool itself costs."""

from pytest_gpuio.datapaths.base import DataPath, Evidence, Proof


def _prove(evidence: Evidence) -> Proof:
    return Proof("null" if evidence.engine == "null" else None, ("engine null: no bytes moved; the tool's own cost",))


NULL = DataPath(
    name="null",
    title="no I/O at all: the overhead of the tool itself",
    engine="null",
    needs=("engine",),
    family="posix",
    synchronous=False,
    moves_data=False,
    # It moves nothing: it belongs in a table only when asked for.
    by_name=True,
    prove=_prove,
)
