"""``usrbio``: 3FS's user-space rings; the daemon of the mount moves the bytes, past the kernel's file system."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.datapaths.base import DataPath, Evidence, Proof

#: Share of the bytes above which the child's own read and write calls moved them, and no ring.
_CALLED: Final = 0.5


def _prove(evidence: Evidence) -> Proof:
    """The client's own word (``facts``), unless the kernel saw the bytes go through read and write calls."""
    told = f"engine {evidence.engine}" + (f" ({evidence.facts})" if evidence.facts else "")
    sentences = (told, _served_by(evidence.daemons))
    if evidence.engine != "usrbio" or "rings=" not in evidence.facts:
        return Proof(None, sentences)
    if evidence.called_bytes is None or not evidence.moved:
        return Proof(
            "usrbio", (*sentences, "bytes of read and write calls are unknown: only the client's word is there")
        )
    share = evidence.called_bytes / evidence.moved
    seen = f"read and write calls of the child moved {share:.3f} of the bytes (/proc/self/io)"
    if share > _CALLED:
        return Proof(None, (*sentences, f"{seen}: they did not go through the rings"))
    return Proof("usrbio", (*sentences, f"{seen}: the rings moved them"))


def _served_by(daemons: tuple[str, ...]) -> str:
    if not daemons:
        return "no hf3fs_fuse_main is seen in /proc: its CPU is not counted (it may be in another PID namespace)"
    return f"CPU of the daemon is counted: {', '.join(daemons)}"


USRBIO = DataPath(
    name="usrbio",
    title="3FS's user-space rings",
    engine="usrbio",
    needs=("engine", "usrbio", "usrbio_target"),
    family="usrbio",
    synchronous=False,
    # Rings know no page cache; O_DIRECT keeps one from being filled by what looks at the file beside them.
    caches=("direct",),
    destinations=("host",),
    by_name=True,
    file_systems=frozenset({"fuse.hf3fs"}),
    prove=_prove,
)
