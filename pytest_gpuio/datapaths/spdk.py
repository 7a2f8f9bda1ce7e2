"""``spdk``: NVMe commands from user space, past the kernel; a core per job polls for completions."""

from pytest_gpuio.datapaths.base import DataPath, Evidence, Proof


def _prove(evidence: Evidence) -> Proof:
    """The engine has no other way than its queue pair: it holds no descriptor that the kernel could serve."""
    told = f"engine {evidence.engine}" + (f" ({evidence.facts})" if evidence.facts else "")
    return Proof(
        "spdk" if evidence.engine == "spdk" and evidence.facts else None,
        (told, "no file is open and the block layer is not in the way: a queue pair of SPDK per job"),
    )


SPDK = DataPath(
    name="spdk",
    title="user-space NVMe, polled, on a raw namespace",
    engine="spdk",
    needs=("engine", "spdk", "spdk_target"),
    family="spdk",
    synchronous=False,
    caches=("direct",),
    destinations=("host",),
    polls=True,
    # On targets that are spelled spdk:... it is the only path there is.
    by_name=True,
    file=False,
    prove=_prove,
)
