"""The table of capabilities and how each one is asked of a child process."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pytest_gpuio.core.capability import Capability

#: Opening cuFile's driver takes a second at most (tried), or for ever.
_OPENS_S: Final = 30.0

_ALL = (
    Capability("engine", "the compiled engine loads"),
    Capability("libaio", "kernel native AIO (io_setup)", parents=("engine",)),
    Capability("io_uring", "io_uring with a C library to drive it", parents=("engine",)),
    Capability("io_uring_sqpoll", "io_uring with a submission poller (SQPOLL)", parents=("io_uring",)),
    Capability("io_uring_iopoll", "io_uring polling for completions (IOPOLL)", parents=("io_uring",)),
    Capability("io_uring_full", "io_uring polling for both", parents=("io_uring",)),
    Capability("io_uring_cmd", "commands through io_uring (IORING_OP_URING_CMD)", parents=("io_uring",)),
    Capability(
        "cufile",
        "cuFile opens, copies through host memory allowed",
        parents=("cuda",),
        family="gds_compat",
        deadline_s=_OPENS_S,
    ),
    Capability("gds", "cuFile opens with such copies forbidden", parents=("cuda",), family="gds", deadline_s=_OPENS_S),
    Capability(
        "cufile_target",
        "cuFile takes the target",
        parents=("cufile",),
        per_target=True,
        family="gds_compat",
        deadline_s=_OPENS_S,
    ),
    Capability(
        "gds_target",
        "cuFile takes the target, copies forbidden",
        parents=("gds",),
        per_target=True,
        family="gds",
        deadline_s=_OPENS_S,
    ),
    Capability("spdk", "SPDK's shared libraries are there", parents=("engine",), family="spdk"),
    Capability("spdk_target", "the target is a namespace that SPDK can have", parents=("spdk",), per_target=True),
    Capability("usrbio", "3FS's client library is there", parents=("engine",), family="usrbio"),
    Capability("usrbio_target", "the target lies on 3FS", parents=("usrbio",), per_target=True, family="usrbio"),
    Capability("cuda", "an NVIDIA GPU and its driver", parents=("engine",)),
    Capability("kvikio", "KvikIO is installed and can be imported", parents=("cuda",), family="kvikio"),
    Capability("nixl_posix", "NIXL's POSIX plug-in loads", parents=("engine",), family="nixl_posix"),
    Capability("nixl_gds", "NIXL's GDS plug-in loads", parents=("cuda",), family="nixl_gds"),
    Capability("nixl_gds_mt", "NIXL's GDS_MT plug-in loads", parents=("cuda",), family="nixl_gds_mt"),
    Capability("torch", "PyTorch is installed and can be imported", parents=("engine",), family="torch"),
    Capability(
        "safetensors", "safetensors is installed and can be imported", parents=("engine",), family="safetensors"
    ),
    Capability("io_poll", "every device under the target has poll queues", per_target=True),
    Capability("nvme_passthrough", "the target is an NVMe generic device", per_target=True),
    Capability("dax", "the target's files are mapped without page cache (DAX)", parents=("engine",), per_target=True),
    Capability("page_cache", "maps of the target go through the page cache", parents=("engine",), per_target=True),
    Capability("file_io", "the target is read and written as a file", per_target=True),
    Capability("cold_cache", "the target's page cache can be emptied", per_target=True),
    Capability("o_direct", "the target's file system or device accepts O_DIRECT", per_target=True),
)

#: Every capability by name.
CAPABILITIES: Mapping[str, Capability] = MappingProxyType({capability.name: capability for capability in _ALL})
