"""``gds`` and ``gds_compat``: cuFile with falling back forbidden, and allowed; one path per interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pytest_gpuio.datapaths.base import CuFileMode, DataPath, Evidence, Proof, describe_kernel_io
from pytest_gpuio.datapaths.cufile_route import find_route

#: Suffix of the path's name, engine, what it is, whether one request at a time.
_INTERFACES: Final = (
    ("", "cufile", "cuFileRead and cuFileWrite, one request in flight per job", True),
    ("_batch", "cufile_batch", "cuFile's batches, kept full to the queue depth", False),
    ("_stream", "cufile_stream", "cuFileReadAsync in CUDA streams, one for each request in flight", False),
)


def _proof(suffix: str, engine: str) -> Callable[[Evidence], Proof]:
    """Both modes of an interface share it: the label comes from what was seen, never from what was asked."""

    def prove(evidence: Evidence) -> Proof:
        sentences = describe_kernel_io(evidence)
        if evidence.engine != engine or evidence.cufile is None:
            return Proof(None, (*sentences, "cuFile was not in use"))
        found = find_route(evidence.cufile)
        sentences = (*sentences, *found.sentences)
        if found.direct and evidence.cufile.strict is True:
            return Proof(f"gds{suffix}", (*sentences, "falling back was forbidden"), found.route)
        if found.route == "compat":
            return Proof(f"gds_compat{suffix}", sentences, found.route)
        if found.direct:
            sentences = (*sentences, "falling back was not forbidden to cuFile: no proof for the next request")
        return Proof(None, sentences, found.route)

    return prove


def _path(mode: CuFileMode, suffix: str, engine: str, what: str, synchronous: bool) -> DataPath:
    if mode == "strict":
        family, title, needs = "gds", "from the device into GPU memory", ("gds", "gds_target")
    else:
        family, title, needs = "gds_compat", "through host memory", ("cufile", "cufile_target")
    return DataPath(
        name=family + suffix,
        title=f"GPUDirect Storage, {title}: {what}",
        engine=engine,
        needs=("engine", *needs),
        family=family,
        synchronous=synchronous,
        knobs=frozenset({"fixed_buffers"}),
        destinations=("gpu",),
        by_name=suffix != "",
        cufile=mode,
        prove=_proof(suffix, engine),
    )


GDS_PATHS: Final = tuple(
    _path(mode, suffix, engine, what, synchronous)
    for mode in ("strict", "compat")
    for suffix, engine, what, synchronous in _INTERFACES
)
