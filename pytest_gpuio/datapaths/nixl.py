"""``nixl_posix``, ``nixl_gds`` and ``nixl_gds_mt``: NIXL's storage plug-ins, one agent with one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pytest_gpuio.datapaths.base import DataPath, Evidence, Proof, describe_kernel_io
from pytest_gpuio.datapaths.cufile_route import find_route


def _prove_posix(evidence: Evidence) -> Proof:
    return Proof("nixl_posix" if evidence.engine == "nixl_posix" else None, describe_kernel_io(evidence))


def _prove_gds(name: str) -> Callable[[Evidence], Proof]:
    def prove(evidence: Evidence) -> Proof:
        sentences = describe_kernel_io(evidence)
        if evidence.engine != name or evidence.cufile is None:
            return Proof(None, (*sentences, "cuFile was not in use"))
        found = find_route(evidence.cufile)
        sentences = (*sentences, *found.sentences)
        # The plug-in is cuFile's: bytes that cuFile did not move were not moved by it.
        return Proof(None if found.route == "bypassed" else name, sentences, found.route)

    return prove


NIXL_POSIX: Final = DataPath(
    name="nixl_posix",
    title="NIXL's POSIX plug-in, io_uring inside, into host memory",
    engine="nixl_posix",
    needs=("engine", "nixl_posix"),
    family="nixl_posix",
    synchronous=False,
    # NIXL has no call that waits for a transfer: its users poll.
    polls=True,
    destinations=("host",),
    prove=_prove_posix,
)

NIXL_GDS: Final = DataPath(
    name="nixl_gds",
    title="NIXL's GDS plug-in: cuFile's batches",
    engine="nixl_gds",
    needs=("engine", "nixl_gds"),
    family="nixl_gds",
    synchronous=False,
    polls=True,
    destinations=("gpu",),
    cufile="compat",
    prove=_prove_gds("nixl_gds"),
)

NIXL_GDS_MT: Final = DataPath(
    name="nixl_gds_mt",
    title="NIXL's GDS_MT plug-in: cuFile's single requests from threads",
    engine="nixl_gds_mt",
    needs=("engine", "nixl_gds_mt"),
    family="nixl_gds_mt",
    synchronous=False,
    polls=True,
    destinations=("gpu",),
    by_name=True,
    cufile="compat",
    prove=_prove_gds("nixl_gds_mt"),
)
