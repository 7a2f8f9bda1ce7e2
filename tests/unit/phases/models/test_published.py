"""Models against what their publishers say: totals of safetensors indices, file sizes, papers and model cards."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases import models
from pytest_gpuio.phases.models import MLPERF, Checkpoint, find, kv_geometry, manifest, parameters, tensors

DATA = Path(os.environ.get("GPUIO_SHARED_DATA", Path(__file__).resolve().parents[5] / "shared" / "data"))


def mlperf(size):
    name = f"mlperf-llama3-{size}"
    return Checkpoint(find(name), MLPERF[name])


#: ``metadata.total_size`` of each model's model.safetensors.index.json on the Hugging Face hub, and its tensors.
TOTALS = {
    "llama-3.1-8b": (16_060_522_496, 291),
    "llama-3.1-70b": (141_107_412_992, 723),
    "llama-3.1-405b": (811_706_777_600, 1_137),
    "qwen2.5-7b": (15_231_233_024, 339),
    "qwen2.5-72b": (145_412_407_296, 963),
    "mistral-7b-v0.3": (14_496_047_104, 291),
    "mixtral-8x7b": (93_405_585_408, 995),
    "gpt-oss-20b": (13_761_264_768, 459),
}


@pytest.mark.parametrize("name", TOTALS)
def test_bytes_and_tensors_are_those_of_the_published_index(name):
    shards = manifest(tensors(find(name)))
    total, count = TOTALS[name]
    assert sum(tensor.nbytes for shard in shards for tensor in shard.tensors) == total
    assert sum(len(shard.tensors) for shard in shards) == count


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        # Sizes of the files on the hub: tensors, their header and its padding, to the byte.
        ("llama-3.1-8b", [4_976_698_672, 4_999_802_720, 4_915_916_176, 1_168_138_808]),
        ("mistral-7b-v0.3", [4_949_453_792, 4_999_819_336, 4_546_807_800]),
    ],
)
def test_files_have_the_sizes_of_the_published_ones(name, sizes):
    assert [shard.nbytes for shard in manifest(tensors(find(name)))] == sizes


@pytest.mark.parametrize(("name", "shards"), [("llama-3.1-70b", 30), ("llama-3.1-405b", 191), ("mixtral-8x7b", 19)])
def test_a_model_is_cut_into_as_many_files_as_published(name, shards):
    assert len(manifest(tensors(find(name)))) == shards


def test_a_tensor_is_in_the_file_that_the_published_index_names():
    place = {tensor.name: shard.name for shard in manifest(tensors(find("llama-3.1-8b"))) for tensor in shard.tensors}
    for tensor, file in (
        ("model.embed_tokens.weight", 1),
        ("model.layers.10.mlp.down_proj.weight", 2),
        ("model.layers.20.mlp.gate_proj.weight", 2),
        ("model.layers.20.mlp.up_proj.weight", 3),
        ("model.layers.20.self_attn.v_proj.weight", 2),
        ("model.layers.20.input_layernorm.weight", 3),
        ("lm_head.weight", 4),
    ):
        assert place[tensor] == f"model-{file:05}-of-00004.safetensors"


@pytest.mark.parametrize(
    ("name", "total", "within"),
    [
        # Model cards of Qwen2.5 (rounded there), and exact counts of OPT, Llama 2 and DeepSeek-V3's main model.
        ("qwen2.5-0.5b", 0.49e9, 0.01), ("qwen2.5-1.5b", 1.54e9, 0.005), ("qwen2.5-3b", 3.09e9, 0.005),
        ("qwen2.5-7b", 7.61e9, 0.005), ("qwen2.5-14b", 14.7e9, 0.01), ("qwen2.5-32b", 32.5e9, 0.01),
        ("qwen2.5-72b", 72.7e9, 0.005),
        ("mistral-nemo-12b", 12.2e9, 0.01), ("mistral-large-123b", 123e9, 0.01), ("mixtral-8x7b", 46.7e9, 0.001),
        ("opt-6.7b", 6_658_473_984, 0), ("opt-13b", 12_853_473_280, 0), ("opt-30b", 29_974_540_288, 0),
        ("llama-2-7b", 6_738_415_616, 0), ("deepseek-v3", 671_026_419_200, 0),
        # gpt-oss model card, table 1.
        ("gpt-oss-20b", 20.91e9, 0.0005), ("gpt-oss-120b", 116.83e9, 0.0005),
    ],
)  # fmt: skip
def test_parameters_are_those_that_the_publisher_states(name, total, within):
    assert parameters(find(name)) == pytest.approx(total, rel=within, abs=0)


def test_what_one_token_uses_of_a_mixture_of_experts():
    # gpt-oss counts the output head but not the embedding; DeepSeek's page has 37 B, Mixtral's 12.9 B.
    for name, active in (("gpt-oss-20b", 3.61e9), ("gpt-oss-120b", 5.13e9)):
        model = find(name)
        assert models.active_parameters(model) - model.vocab * model.hidden == pytest.approx(active, rel=0.002)
    assert models.active_parameters(find("deepseek-v3")) == pytest.approx(37e9, rel=0.02)
    assert models.active_parameters(find("mixtral-8x7b")) == pytest.approx(12.9e9, rel=0.005)
    assert models.active_parameters(find("llama-2-7b")) == 6_738_415_616


def test_quantised_checkpoints():
    # gpt-oss model card: 12.8 and 60.8 GiB. An inventory of the hub's files: 65,248,815,744 bytes of tensors.
    assert sum(tensor.nbytes for tensor in tensors(find("gpt-oss-20b"))) / 2**30 == pytest.approx(12.8, abs=0.05)
    assert sum(tensor.nbytes for tensor in tensors(find("gpt-oss-120b"))) == 65_248_815_744
    # DeepSeek-V3: an audit of the hub's 163 files counts 91,991 tensors; its page says 685 B with the extra layer.
    every = tensors(find("deepseek-v3"))
    assert len(every) == 91_991
    assert sum(tensor.params for tensor in every) == pytest.approx(685e9, rel=0.001)
    extra = sum(tensor.params for tensor in every if ".layers.61." in tensor.name)
    shared = 2 * 129_280 * 7_168  # embedding and head, which README_WEIGHTS.md leaves out of its 11.5 B
    assert extra - shared == pytest.approx(11.5e9, rel=0.01)


@pytest.mark.parametrize(
    ("name", "fp16", "fragment"),
    [
        ("llama-3.1-8b", 131_072, 64), ("llama-3.1-70b", 327_680, 64), ("llama-3.1-405b", 516_096, 64),
        ("qwen2.5-7b", 57_344, 32), ("qwen2.5-72b", 327_680, 64), ("mistral-7b-v0.3", 131_072, 64),
        ("deepseek-v3", 70_272, 18), ("gpt-oss-20b", 49_152, 32), ("gpt-oss-120b", 73_728, 32),
        ("llama-2-7b", 524_288, 256),
    ],
)  # fmt: skip
def test_cache_bytes_per_token(name, fp16, fragment):
    geometry = kv_geometry(find(name), "fp16")
    assert geometry.token_bytes == fp16
    assert geometry.regions * geometry.fragment_bytes(16) == fragment << 10
    assert kv_geometry(find(name), "fp8").token_bytes == fp16 // 2


def test_sliding_windows_do_not_grow():
    assert kv_geometry(find("gpt-oss-20b")).growing_bytes == 24_576
    assert kv_geometry(find("gpt-oss-120b")).growing_bytes == 36_864


def test_cache_over_tensor_parallel_ranks():
    assert kv_geometry(find("llama-3.1-70b"), tensor_parallel=8).fragment_bytes(16) * 2 == 8 << 10
    assert kv_geometry(find("qwen2.5-7b"), tensor_parallel=8).token_bytes == 57_344 // 4  # a head a rank, copied twice
    assert kv_geometry(find("deepseek-v3"), tensor_parallel=8).token_bytes == 70_272  # the latent is on every rank


def test_an_adapter_on_every_projection_of_the_8b():
    adapter = models.adapter(find("llama-3.1-8b"), 16)
    assert len(adapter) == 448
    first = Counter(tensor.nbytes for tensor in adapter if ".layers.0." in tensor.name)
    assert first == {128 << 10: 9, 448 << 10: 3, 32 << 10: 2}
    assert sum(tensor.nbytes for tensor in adapter) == 83_886_080
    assert sum(tensor.nbytes for tensor in models.adam_state(adapter)) == 335_544_320


@pytest.mark.parametrize(
    ("size", "gib", "ranks", "files", "rank_gib"),
    [
        # MLPerf Storage rules 4 state 105 GB, 912 GB, 5.29 TB and 18 TB; its code computes these.
        ("8b", 104.7, 8, 16, (13.09, 13.09)),
        ("70b", 911.2, 64, 128, (14.24, 14.24)),
        ("405b", 5_292, 512, 1_544, (8.86, 12.32)),
        ("1t", 15_427, 1_024, 2_072, (12.91, 17.97)),
    ],
)
def test_checkpoints_are_those_of_mlperf(size, gib, ranks, files, rank_gib):
    checkpoint = mlperf(size)
    written = [checkpoint.files(rank) for rank in range(checkpoint.parallelism.ranks)]
    each = [sum(file.nbytes for file in mine) / 2**30 for mine in written]
    assert len(written) == ranks
    assert sum(map(len, written)) == files
    assert sum(each) == pytest.approx(gib, abs=0.5 if gib > 1000 else 0.05)
    assert (min(each), max(each)) == pytest.approx(rank_gib, abs=0.005)
    names = [(rank, file.name) for rank, mine in enumerate(written) for file in mine]
    assert len({name for _, name in names}) == files


@pytest.mark.parametrize(
    ("size", "layer"),
    [
        ("8b", (1_024, 6_291_456, 4_194_304, 1_024, 29_360_128, 14_680_064)),
        ("70b", (2_048, 2_359_296, 2_097_152, 2_048, 14_680_064, 7_340_032)),
        ("405b", (32_768, 75_497_472, 67_108_864, 32_768, 436_207_616, 218_103_808)),
        ("1t", (51_744, 222_809_664, 167_340_096, 51_744, 1_271_660_544, 635_830_272)),
    ],
)
def test_a_layer_of_a_checkpoint(size, layer):
    files = mlperf(size).files(0)
    tensors_of_layer = files[0].tensors[1:7] if size in ("8b", "70b") else files[1].tensors
    assert tensors_of_layer == layer


def test_state_files_of_the_8b():
    weights, optimiser = mlperf("8b").files(0)
    assert len(weights.tensors) == 195
    assert weights.nbytes / 2**20 == pytest.approx(1_914.6, abs=0.05)
    assert optimiser.nbytes / 2**20 == pytest.approx(11_487.6, abs=0.05)
    assert optimiser.tensors[1::2] == (80 << 10,) * 3


def test_the_shared_manifests_agree():
    path = DATA / "manifests" / "dense_models.json"
    if not path.exists():
        pytest.skip(f"no shared data at {path}")
    for name, expected in json.loads(path.read_text())["models"].items():
        model = find(name)
        every = tensors(model)
        assert parameters(model) == expected["params"]
        assert models.layer_bytes(model) == expected["layer_bytes"]
        assert len(manifest(every)) == expected["shards_5GB"]
        assert {str(size): count for size, count in Counter(t.nbytes for t in every).items()} == expected["size_hist"]
        assert kv_geometry(model).token_bytes == expected["kv_bytes_per_token_fp16"]


@pytest.mark.parametrize("name", ["qwen2.5-0.5b", "gpt-oss-20b"])
def test_files_are_what_the_format_says(name):
    """The layout by the format's own words: u64 length, JSON padded to 8, tensors without holes from there on."""
    for shard in manifest(tensors(find(name)), 1 << 30):
        assert (shard.header_bytes - 8) % 8 == 0
        end = shard.header_bytes
        for tensor, offset in zip(shard.tensors, shard.offsets, strict=True):
            assert offset == end
            end += tensor.nbytes
        assert end == shard.nbytes


@pytest.mark.parametrize("wrong", [8, -1])
def test_no_such_rank(wrong):
    with pytest.raises(ConfigError, match=r"rank -?\d+ is outside 0 \.\. 7"):
        mlperf("8b").files(wrong)
