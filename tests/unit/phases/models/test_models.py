"""Architectures, a user's TOML and spreading over ranks: what is refused, and how it is said."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases import models
from pytest_gpuio.phases.models import Architecture, Checkpoint, Parallelism, Tensor, find, kv_geometry, manifest
from pytest_gpuio.phases.models.catalog import parse

MINE = """
# ours
[models."tiny.v1"]
family = "llama"
source = "here"
layers = 2
hidden = 64
ffn = 256
heads = 4
kv_heads = 2
vocab = 1000
"""


def small(**changes):
    numbers = {"layers": 2, "hidden": 64, "ffn": 256, "heads": 4, "kv_heads": 2, "vocab": 1000}
    return Architecture(**({"name": "tiny", "family": "llama", "source": "here"} | numbers | changes))


def test_a_user_adds_a_model(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    model = find(f"{file}:tiny.v1")
    assert model == find(str(file)) == parse(MINE, "x")["tiny.v1"]
    assert model.head_dim == 16
    # 2 x (4 projections 64x64, 64x32, 64x32, 64x64; 3 of 256x64; 2 norms) + norm + 2 x 1000x64.
    assert models.parameters(model) == 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 256 * 64 + 2 * 64) + 64 + 2 * 64_000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("layers = 2", "layer = 2"), r":6: model 'tiny\.v1': layer is not a known key\. Did you mean 'layers'\?"),
        (("layers = 2", "layers = '2'"), r":6: model 'tiny\.v1': layers = '2' is not of type int"),
        (("layers = 2", "layers = true"), r":6: .*layers = True is not of type int"),
        (("layers = 2", "layers = 0"), r":6: model 'tiny\.v1': layers 0 is outside 1"),
        (("layers = 2\n", ""), r":3: model 'tiny\.v1' lacks layers\."),
        (("heads = 4", "heads = 3"), r"head_dim is missing, and hidden 64 is no multiple of 3"),
        (("kv_heads = 2", "kv_heads = 3"), r":10: .*kv_heads 3 does not divide 4 heads"),
        (('"llama"', '"lama"'), r":4: model 'tiny\.v1': family 'lama' is none of llama, qwen2"),
        (('"here"', '" "'), r":5: model 'tiny\.v1': source is empty"),
        (("layers = 2", "layers = 2\nexperts = 8"), r":7: model 'tiny\.v1': experts means nothing in family 'llama'"),
        (('[models."tiny.v1"]', '[model."tiny.v1"]'), r":3: 'model' is not known here"),
        (('[models."tiny.v1"]', '[models."Tiny!"]'), r":3: model name 'Tiny!' is malformed"),
        (("layers = 2", "layers = "), r"line 6"),
        (('family = "llama"', 'family = "mixtral"'), r"experts 0 is outside 1"),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_key(change, words):
    text = MINE.replace(*change)
    assert text != MINE
    with pytest.raises(ConfigError, match=r"^mine\.toml.*" + words):
        parse(text, "mine.toml")


@pytest.mark.parametrize(
    ("text", "words"), [("", "no models"), ("models = 3", "no models"), ("[models]\nx = 3", ":2: ")]
)
def test_a_file_without_models(text, words):
    with pytest.raises(ConfigError, match=f"mine.toml.*{words}"):
        parse(text, "mine.toml")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        find(str(tmp_path / "none.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        find(str(tmp_path / "binary.toml"))
    (tmp_path / "long.toml").write_text("#" * (1 << 21))
    with pytest.raises(ConfigError, match="no list of models"):
        find(str(tmp_path / "long.toml"))
    (tmp_path / "two.toml").write_text(MINE + MINE.replace("tiny.v1", "other"))
    with pytest.raises(ConfigError, match=re.escape("two.toml holds 2 models: name one, as in")):
        find(str(tmp_path / "two.toml"))
    with pytest.raises(ConfigError, match=r"model 'tinny' is unknown in .*two\.toml"):
        find(f"{tmp_path / 'two.toml'}:tinny")


def test_an_unknown_model_lists_near_ones():
    with pytest.raises(ConfigError, match=r"model 'llama-3\.1-7b' is unknown\. Did you mean llama-3\.1-70b or "):
        find("llama-3.1-7b")
    with pytest.raises(ConfigError, match=r"Did you mean llama-3\.1-8b"):
        find("LLAMA-3.1-8B")


@given(st.text(max_size=200))
def test_any_text_is_models_or_refused(text):
    try:
        found = parse(text, "x.toml")
    except ConfigError as error:
        found = str(error)
    assert found.startswith("x.toml") if isinstance(found, str) else found


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kv_heads": 8, "heads": 4}, "kv_heads 8 does not divide 4 heads"),
        ({"hidden": 1 << 30}, "hidden 1,073,741,824 is outside"),
        ({"dtype": "fp8"}, "dtype 'fp8' is none of"),
        ({"family": "mixtral", "experts": 4, "experts_per_token": 5}, "experts_per_token 5 is more than experts, 4"),
        ({"family": "gpt_oss", "experts": 4, "experts_per_token": 1, "window_layers": 3}, "window_layers 3 is more"),
    ],
)
def test_impossible_numbers(changes, words):
    with pytest.raises(ConfigError, match=words):
        small(**changes)


@given(st.lists(st.integers(1, 3_000), min_size=1, max_size=60), st.integers(1, 8_000))
def test_shards_hold_every_tensor_once_and_no_more_than_allowed(sizes, limit):
    every = [Tensor(f"t{index}", (size,), "U8", size) for index, size in enumerate(sizes)]
    shards = manifest(every, limit)
    assert sorted(t.name for shard in shards for t in shard.tensors) == sorted(t.name for t in every)
    for shard in shards:
        data = shard.nbytes - shard.header_bytes
        assert data <= limit or len(shard.tensors) == 1
    # In order: no shard could have taken the first tensor of the one that was opened after it.
    normal = [shard for shard in shards if not (len(shard.tensors) == 1 and shard.tensors[0].nbytes > limit)]
    order = {tensor.name: index for index, tensor in enumerate(every)}
    for shard, following in pairwise(normal):
        first = min(following.tensors, key=lambda tensor: order[tensor.name])
        assert shard.nbytes - shard.header_bytes + first.nbytes > limit


@pytest.mark.parametrize(("every", "limit"), [([], 10), ([Tensor("a", (1,), "U8", 1)], 0)])
def test_no_files_of_nothing(every, limit):
    with pytest.raises(ConfigError):
        manifest(every, limit)


def test_cache_and_adapter_refusals():
    model = find("llama-3.1-8b")
    with pytest.raises(ConfigError, match=r"8 key-value heads of llama-3\.1-8b cannot be spread over 3 ranks"):
        kv_geometry(model, tensor_parallel=3)
    with pytest.raises(ConfigError, match="below 1"):
        kv_geometry(model, tensor_parallel=0)
    with pytest.raises(ConfigError, match="cache type 'fp4' is none of"):
        kv_geometry(model, "fp4")
    with pytest.raises(ConfigError, match=r"LoRA rank 0 is outside 1 \.\. 4096"):
        models.adapter(model, 0)
    with pytest.raises(ConfigError, match="adapter type"):
        models.adapter(model, 8, "fp4")


def test_adapters_leave_experts_and_routers_alone():
    names = {tensor.name for name in ("mixtral-8x7b", "deepseek-v3") for tensor in models.adapter(find(name))}
    assert names
    assert not [name for name in names if ".experts." in name or ".gate." in name or "embed" in name]


def test_checkpoint_refusals():
    with pytest.raises(ConfigError, match="no formula"):
        Checkpoint(find("deepseek-v3"), Parallelism(1, 1, 1, 1))
    with pytest.raises(ConfigError, match="2 layers of tiny cannot fill 3 pipeline stages"):
        Checkpoint(small(), Parallelism(1, 3, 1, 1))
    with pytest.raises(ConfigError, match="data parallelism 0 is below 1"):
        Parallelism(1, 1, 0, 1)
    with pytest.raises(ConfigError, match="ZeRO stage 4"):
        Parallelism(1, 1, 1, 4)


@given(
    tensor=st.sampled_from([1, 2, 4]),
    pipeline=st.integers(1, 5),
    data=st.sampled_from([1, 2, 4]),
    zero=st.integers(0, 3),
)
def test_however_spread_the_weights_are_written_once(tensor, pipeline, data, zero):
    """All divisions come out even here, so the sum is exact; norms are whole on each tensor-parallel rank."""
    model = small(layers=7, vocab=1024)
    checkpoint = Checkpoint(model, Parallelism(tensor, pipeline, data, zero))
    files = [checkpoint.files(rank) for rank in range(checkpoint.parallelism.ranks)]
    weights = sum(file.nbytes for mine in files for file in mine if "model_states" in file.name)
    norms = (2 * model.layers + 1) * model.hidden
    assert weights == 2 * (checkpoint.parameters + norms * (tensor - 1))
    moments = sum(max(file.tensors) for mine in files for file in mine if "optim_states" in file.name)
    assert moments <= 4 * checkpoint.parameters < moments + 4 * checkpoint.parallelism.ranks
