"""Key-value cache as whole objects, as the KV cache benchmark of MLPerf Storage v3 writes and reads them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.models import find, kv_geometry
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import FSYNC, READ, WRITE, Records
from pytest_gpuio.phases.scaling import check_share
from pytest_gpuio.phases.workloads.binding import by_name

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Of a .npy file, before the array.
_HEADER: Final = 128
_PIECE: Final = 1 << 20
#: Tokens that are decoded between two reads of the whole object.
_TOKENS_PER_READ: Final = 32
#: Contexts from here on are prefilled and written, but not decoded.
_PREFILL_ONLY: Final = 10_000


class Users(NamedTuple):
    """Ranges from which a kind of user draws uniformly: context and generated tokens, seconds of thinking."""

    context: tuple[int, int]
    generated: tuple[int, int]
    think_s: tuple[float, float]


USERS: Final = (
    Users((512, 4_096), (50, 200), (0.1, 0.5)),
    Users((4_096, 25_000), (100, 500), (0.2, 1.0)),
    Users((4_096, 16_384), (200, 800), (0.3, 1.5)),
)
#: By option of the closed division: model and requests in flight.
OPTIONS: Final[Mapping[str, tuple[str, int]]] = MappingProxyType(
    {"storage_stress": ("llama-3.1-8b", 16), "throughput": ("llama-3.1-8b", 16), "large_model": ("llama-3.1-70b", 4)}
)


def records(*, option: str, requests: int, in_flight: int, think: float, scale: float, seed: int) -> Records:
    """A request is a write of its object with a sync, then a group per read of the whole object."""
    import numpy as np

    check_share(scale)
    draw = np.random.default_rng(seed)
    model, allocations = OPTIONS[option]
    token_bytes = kv_geometry(find(model), "fp16").token_bytes
    kind = draw.integers(0, len(USERS), requests)
    context, generated, think_s = (
        draw.uniform(*np.array([getattr(user, name) for user in USERS])[kind].T)
        for name in ("context", "generated", "think_s")
    )
    whole = context.astype(np.int64) * token_bytes
    size = np.maximum(1, np.rint(whole * scale / _PIECE).astype(np.int64)) * _PIECE if scale < 1 else whole
    reads = np.where(context < _PREFILL_ONLY, np.maximum(1, np.ceil(generated / _TOKENS_PER_READ)), 0).astype(np.int64)
    groups = 1 + reads
    request = np.repeat(np.arange(requests), groups)
    first = np.cumsum(groups) - groups
    writes = np.zeros(len(request), np.bool_)
    writes[first] = True
    last = np.cumsum(groups) - 1
    compute = np.zeros(len(request), np.int64)
    compute[last] = np.rint(think_s * think * 1e9).astype(np.int64)
    # Header, array and, for writes, a sync; the array waits for the header.
    count = 2 + writes
    group = np.repeat(np.arange(len(request)), count)
    step = np.arange(len(group)) - np.repeat(np.cumsum(count) - count, count)
    return Records.build(
        Files.of({f"object_{index:05}.npy": _HEADER + int(each) for index, each in enumerate(size)}),
        offset=np.choose(step, [0, _HEADER, 0]),
        length=np.choose(step, [_HEADER, size[request][group], 0]),
        op=np.where(step == 2, FSYNC, np.where(writes[group], WRITE, READ)),
        file=request[group],
        group=group,
        barrier=step == 1,
        stage=np.where(writes[group], 0, 1),
        compute_ns=compute,
        chain=request % min(in_flight or allocations, requests),
        stages=("write", "read"),
    )


MODEL: Final = RecordModel(
    "inference/kv_objects",
    "Each sequence's key-value cache is one object that is written once and read whole for every 32 tokens.",
    source="MLPerf Storage v3 KV cache (rules section 6): three kinds of users, objects of 64 MiB to 3.05 GiB "
    "(Llama-3.1-8B), .npy files, a sync after each write; 16, 16 and 4 allocations at a time.",
    build=by_name(records),
    deciding="throughput",
    parameters=(
        Parameter("option", "storage_stress", "of the closed division", choices=tuple(OPTIONS)),
        Parameter("requests", 32, "requests of a pass", least=1, most=65_000),
        Parameter("in_flight", 0, "requests at a time; 0 = the option's", least=0, most=65_535),
        Parameter("think", 0.0, "factor on the users' thinking time; 0 = others always wait", least=0.0, most=1000.0),
    ),
    scale=1 / 64,
    bs=2 << 20,
    qd=16,
    writes=True,
    durability="fsync",
    note="not an MLPerf submission",
)
