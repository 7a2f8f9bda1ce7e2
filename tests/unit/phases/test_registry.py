import dataclasses
import subprocess
import sys

import pytest

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases import WORKLOADS, Workload, get, match, register, registry

#: name -> order, bytes, depth, read share, durability, round; the set that the design names.
EXPECTED = {
    "pretrain/dataset_read": ("sequential", 1048576, 8, 100, "none", "time"),
    "pretrain/checkpoint_save": ("sequential", 1048576, 8, 0, "fsync", "region"),
    "finetune/model_load": ("sequential", 8388608, 4, 100, "none", "region"),
    "inference/kv_fetch": ("random", 65536, 32, 100, "none", "time"),
    "inference/random_read_4k": ("random", 4096, 32, 100, "none", "time"),
    "micro/randread": ("random", 4096, 32, 100, "none", "time"),
    "micro/seqread": ("sequential", 1048576, 8, 100, "none", "time"),
    "micro/randwrite": ("random", 4096, 32, 0, "none", "time"),
    "micro/randwrite_fdatasync": ("random", 4096, 32, 0, "fdatasync32", "time"),
    "micro/randwrite_dsync": ("random", 4096, 32, 0, "dsync", "time"),
    "micro/seqwrite": ("sequential", 1048576, 8, 0, "none", "time"),
    "micro/seqwrite_fsync": ("sequential", 1048576, 8, 0, "fsync", "time"),
    "micro/randrw70": ("random", 4096, 32, 70, "none", "time"),
    "micro/zipfread": ("zipf", 4096, 32, 100, "none", "time"),
}

#: name -> what decides it; the table of workload models that the project was asked for.
MODELS = {
    "pretrain/dataset_text": "completion",
    "pretrain/dataset_media": "utilization",
    "pretrain/dataset_columnar": "utilization",
    "pretrain/checkpoint_ranks": "durable",
    "pretrain/checkpoint_async": "stall",
    "pretrain/checkpoint_restore": "resident",
    "finetune/base_load": "resident",
    "finetune/adapter_checkpoint": "completion",
    "finetune/optimizer_offload": "throughput",
    "inference/cold_start": "resident",
    "inference/kv_prefix_fetch": "completion",
    "inference/kv_offload": "completion",
    "inference/kv_objects": "throughput",
    "inference/kv_trace": "completion",
    "inference/weights_stream": "utilization",
    "inference/kv_stream": "utilization",
    "inference/vector_read": "completion",
    "inference/mix_kv": "completion",
    "inference/mix_cold_start": "completion",
    "pretrain/mix_checkpoint": "utilization",
    "micro/block_trace": "completion",
}


@pytest.fixture
def scratch_registry(monkeypatch):
    """The registry as it is now, put back after the test."""
    monkeypatch.setattr(registry, "_registry", before := dict(registry._registry))
    return before


def test_the_set_is_complete():
    streams = {name: w for name, w in WORKLOADS.items() if isinstance(w, Workload)}
    found = {name: (w.order, w.bs, w.qd, w.read_percent, w.durability, w.round) for name, w in streams.items()}
    assert found == EXPECTED
    assert {name: w.deciding for name, w in WORKLOADS.items() if name not in streams} == MODELS
    assert [name for name, w in streams.items() if w.zipf_theta] == ["micro/zipfread"]


def test_the_view_is_read_only():
    with pytest.raises(TypeError):
        WORKLOADS["micro/new"] = WORKLOADS["micro/randread"]


def test_a_third_party_adds_one(scratch_registry):
    mine = Workload("inference/mine", "Mine.", order="random", bs=4096, qd=1, source="me")
    register(mine)
    register(mine)  # the same plugin loaded again
    assert get("inference/mine") is mine
    assert match(["inference/mine"]) == (mine,)


def test_a_taken_name_is_refused(scratch_registry):
    other = dataclasses.replace(get("micro/randread"), qd=1)
    with pytest.raises(ConfigError, match="'micro/randread' is registered already"):
        register(other)
    assert get("micro/randread").qd == 32


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("inference/kvfetch", "Did you mean inference/kv_fetch"),
        ("kv_fetch", "Did you mean inference/kv_fetch?"),
        ("qqq", "Known are: pretrain/dataset_read,"),
    ],
)
def test_unknown_names_get_a_hint(name, hint):
    with pytest.raises(ConfigError) as error:
        get(name)
    assert f"workload {name!r} is unknown" in str(error.value)
    assert hint in str(error.value)


def test_patterns_select_once_in_registry_order():
    names = [workload.name for workload in match(["micro/seq*", "inference/kv_fetch", "micro/seqread"])]
    assert names == ["inference/kv_fetch", "micro/seqread", "micro/seqwrite", "micro/seqwrite_fsync"]
    assert match(["*"]) == tuple(w for w in WORKLOADS.values() if not getattr(w, "by_name", False))
    assert match([]) == ()


def test_a_pattern_without_a_match_is_refused():
    with pytest.raises(ConfigError, match=r"'mikro/\*' matches none"):
        match(["micro/randread", "mikro/*"])


def test_importing_the_room_loads_nothing_heavy():
    code = "import sys, pytest_gpuio.phases, pytest_gpuio.results; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert not {"numpy", "pytest", "rich", "jsonschema", "psutil", "pytest_gpuio.engine"} & set(loaded.split())
