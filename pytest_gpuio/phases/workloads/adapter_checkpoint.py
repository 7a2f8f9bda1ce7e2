"""Fine-tuning's adapters: small checkpoints that must be durable, and loads of popular ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.models import adam_state, adapter, find, manifest
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import FSYNC, READ, WRITE, Records
from pytest_gpuio.phases.scaling import check_share, thin
from pytest_gpuio.phases.workloads.binding import by_name, compute_parameter, model_parameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def records(
    *,
    model: str,
    rank: int,
    optimizer: bool,
    adapters: int,
    saves: int,
    loads: int,
    load_rate: float,
    zipf: float,
    fsync: bool,
    compute_ms: float,
    scale: float,
    seed: int,
) -> Records:
    """A group per save, adapters taking turns, one writer; and a group per load, the popular ones most often.

    Raises:
        ConfigError: neither saves nor loads, or the model has no projections.
    """
    import numpy as np

    if not saves + loads:
        raise ConfigError("neither saves nor loads: give at least one of them.")
    check_share(scale)
    draw = np.random.default_rng(seed)
    lora = adapter(find(model), rank)
    if not lora:
        raise ConfigError(f"{model} has no projection that an adapter could be put on.")
    (shard,) = manifest(lora, 1 << 62)
    weights = thin(np.array([tensor.nbytes for tensor in shard.tensors], np.int64), scale)
    moments = thin(np.array([t.nbytes for t in adam_state(shard.tensors)], np.int64), scale)
    adapter_length = np.concatenate([[shard.header_bytes], weights[weights > 0]])
    adam_length = moments[moments > 0]
    files = Files.of(
        {f"adapter_{index:04}.safetensors": int(adapter_length.sum()) for index in range(adapters)}
        | ({f"optimizer_{index:04}.pt": int(adam_length.sum()) for index in range(adapters)} if optimizer else {})
    )
    sync = np.zeros(int(fsync), np.int64)
    parts = [(adapter_length, 0)] + ([(adam_length, adapters)] if optimizer else [])
    save_length = np.concatenate([np.concatenate([each, sync]) for each, _ in parts])
    save_offset = np.concatenate([np.concatenate([_starts(each), sync]) for each, _ in parts])
    save_op = np.concatenate([np.concatenate([np.full(len(each), WRITE), sync + FSYNC]) for each, _ in parts])
    save_file = np.concatenate([np.full(len(each) + fsync, base) for each, base in parts])
    load_offset = _starts(adapter_length)
    popular = np.arange(1, adapters + 1, dtype=float) ** -zipf
    wanted = draw.choice(adapters, loads, p=popular / popular.sum())
    times = np.cumsum(draw.exponential(1e9 / load_rate, loads)).astype(np.int64) if load_rate else np.full(loads, -1)
    return Records.build(
        files,
        offset=np.concatenate([np.tile(save_offset, saves), np.tile(load_offset, loads)]),
        length=np.concatenate([np.tile(save_length, saves), np.tile(adapter_length, loads)]),
        op=np.concatenate([np.tile(save_op, saves), np.full(len(load_offset) * loads, READ)]),
        file=np.concatenate(
            [
                np.tile(save_file, saves) + np.repeat(np.arange(saves) % adapters, len(save_file)),
                np.repeat(wanted, len(load_offset)),
            ]
        ),
        group=np.concatenate(
            [np.repeat(np.arange(saves), len(save_file)), saves + np.repeat(np.arange(loads), len(load_offset))]
        ),
        # The header says where tensors lie; the writer is a single stream.
        barrier=np.concatenate(
            [np.ones(len(save_file) * saves, np.bool_), np.tile(np.arange(len(load_offset)) == 1, loads)]
        ),
        stage=np.concatenate([np.zeros(len(save_file) * saves, np.int64), np.ones(len(load_offset) * loads, np.int64)]),
        chain=np.concatenate([np.zeros(saves, np.int64), (saves > 0) + _chains(loads, load_rate)]),
        time_ns=np.concatenate([np.full(saves, -1), times]),
        compute_ns=np.concatenate([np.full(saves, round(max(compute_ms, 0.0) * 1e6)), np.zeros(loads, np.int64)]),
        stages=("save", "load"),
    )


def _starts(length: NDArray[np.int64]) -> NDArray[np.int64]:
    import numpy as np

    return np.cumsum(length) - length


def _chains(loads: int, rate: float) -> NDArray[np.int64]:
    """Open-loop loads wait for none; in a closed loop one follows the other."""
    import numpy as np

    return np.arange(loads) if rate else np.zeros(loads, np.int64)


MODEL: Final = RecordModel(
    "finetune/adapter_checkpoint",
    "LoRA adapters and their optimiser state are saved durably, and popular adapters are loaded.",
    source="shapes of LoRA on every projection (Llama-3.1-8B, rank 16: 448 tensors, 83.9 MB in bf16 and 335.5 MB of "
    "Adam in fp32); popularity and separate loads as in Alibaba's GenTD26 log.",
    build=by_name(records),
    deciding="completion",
    parameters=(
        model_parameter("llama-3.1-8b"),
        Parameter("rank", 16, "inner width of the adapter", least=1, most=65_536),
        Parameter("optimizer", True, "save Adam's moments too"),
        Parameter("adapters", 4, "adapters on storage", least=1, most=10_000),
        Parameter("saves", 8, "saves, adapters taking turns", least=0, most=100_000),
        Parameter("loads", 32, "loads", least=0, most=1_000_000),
        Parameter("load_rate", 0.0, "loads per second, open loop; 0 = one after the other", least=0.0, most=1e6),
        Parameter("zipf", 1.0, "exponent of the adapters' popularity", least=0.0, most=5.0),
        Parameter("fsync", True, "sync each file after its last byte"),
        compute_parameter(0.0, "the steps between two saves"),
    ),
    scale=1 / 8,
    bs=1 << 20,
    qd=8,
    writes=True,
    durability="fsync",
)
