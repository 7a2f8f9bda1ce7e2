"""Status codes of 3FS in words; its client's rings return them instead of an errno."""

from __future__ import annotations

from typing import Final

#: What the engine adds, so that they cannot be taken for an errno: GPUIO_3FS_CODES of ``gpuio.h``.
OFFSET: Final = 300_000
_LAST: Final = 99_999

#: Services by thousands, as 3FS numbers its codes.
_SERVICES: Final = {
    0: "common",
    1: "transaction",
    2: "RPC",
    3: "metadata",
    4: "storage",
    5: "cluster manager",
    6: "cluster manager's client",
    7: "storage client",
    8: "client and FUSE daemon",
}
_SEE_LOG: Final = "see the log of hf3fs_fuse_main"
#: code: (what happened, what to do). Meanings from 3FS's public sources.
_CODES: Final[dict[int, tuple[str, str]]] = {
    34: ("the mount is read-only for this user", "mount it writable, or use workloads that only read"),
    3010: ("the inode is no file", "name a regular file or a folder as target"),
    3014: ("the file has a hole", "let gpuio lay the file out anew: data was lost or never written"),
    4030: ("a storage target is offline", "wait until the chain has recovered"),
    7004: ("no route to the file's chain is known", "see that the cluster manager is up"),
    7006: ("the storage service cannot be reached", "see the network and the storage service"),
    7007: ("a chunk is missing", "let gpuio lay the file out anew: data was lost or never written"),
    7008: ("the storage service did not answer in time", "see the network and the storage service"),
    7015: ("data did not have its checksum", "see the storage service's log: data is damaged"),
    7019: ("the storage service is read-only", "see the cluster's state"),
    7021: ("the storage is full", "free some, or use a smaller --gpuio-size"),
    8000: ("there are too many rings or open files", "lower --gpuio-jobs, or end other programs that use rings"),
    8001: ("a hole lies inside the range", "let gpuio lay the file out anew: data was lost or never written"),
    8003: ("the daemon has this operation switched off", "see the daemon's configuration"),
    8004: ("the daemon does not know the shared memory", "see whether hf3fs_fuse_main was started anew meanwhile"),
    8006: ("the daemon cannot map the shared memory", "see /dev/shm: it must be shared with the daemon"),
}


def is_3fs_code(code: int) -> bool:
    """Whether a result of the engine, of either sign, stands for a status code of 3FS."""
    return OFFSET < abs(code) <= OFFSET + _LAST


def hf3fs_text(code: int) -> str:
    """A result in a sentence with the remedy: ``3FS status 8001 (client and FUSE daemon): a hole ...: let ...``."""
    status = abs(code) - OFFSET
    service = _SERVICES.get(status // 1000, "unknown service")
    happened, remedy = _CODES.get(status, ("the request failed", _SEE_LOG))
    return f"3FS status {status} ({service}): {happened}: {remedy}"
