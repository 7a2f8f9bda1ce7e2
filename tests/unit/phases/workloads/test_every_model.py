"""What holds for every record model, whatever its parameters."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.records import FSYNC, WRITE
from pytest_gpuio.phases.scaling import PIECE
from pytest_gpuio.phases.workloads import MODELS

#: The replay of a trace is what its file says: those have tests of their own.
BY_NAME = {model.name: model for model in MODELS if not model.by_name}
COLUMNS = (
    "op", "file", "offset", "length", "barrier", "stage", "group", "time_ns", "compute_ns", "apart_ns", "chain", "rank",
)  # fmt: skip
#: Models whose request sizes are drawn, so that another number of draws gives other sizes.
DRAWN = {"pretrain/dataset_text", "pretrain/dataset_media", "finetune/base_load", "pretrain/mix_checkpoint"}
#: Models whose writes hold framing, which depends on the tensor before.
FRAMED = {"pretrain/checkpoint_ranks", "pretrain/checkpoint_async"}
#: Models that draw nothing: a seed changes nothing.
FIXED = {
    "pretrain/checkpoint_ranks", "pretrain/checkpoint_async", "pretrain/checkpoint_restore", "inference/weights_stream",
    "inference/kv_stream", "finetune/optimizer_offload",
}  # fmt: skip
#: Smaller than the defaults, so that scale 1 is quick to build.
SMALL = {
    "pretrain/dataset_text": {"samples": 4096},
    "pretrain/dataset_columnar": {"row_groups": 512},
    "inference/vector_read": {"vectors": 100_000, "queries": 256},
}


def same(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in COLUMNS) and (
        one.files.names == other.files.names and np.array_equal(one.files.sizes, other.files.sizes)
    )


@pytest.mark.parametrize("name", BY_NAME)
def test_the_same_values_give_the_same_records_and_another_seed_others(name):
    model = BY_NAME[name].with_values(SMALL.get(name, {}))
    first = model.records()
    assert same(first, model.records())
    assert same(first, model.with_values({"seed": 2}).records()) == (name in FIXED or name == "inference/cold_start")


@pytest.mark.parametrize("name", BY_NAME)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scale=st.floats(0.02, 0.9))
def test_scale_is_a_share_of_the_bytes_and_not_of_the_requests(name, scale):
    model = BY_NAME[name].with_values(SMALL.get(name, {}))
    whole = model.with_values({"scale": 1.0}).records()
    part = model.with_values({"scale": scale}).records()
    # One unit of each group or file may be more or less than its share: a piece, a row, a read.
    slack = 2 * PIECE * max(part.groups, len(part.files))
    if name == "inference/kv_stream":
        slack = 0.5 * scale * whole.bytes_of()  # the first steps of a conversation read less than its last
    if name in DRAWN:
        slack += 0.35 * scale * whole.bytes_of()  # few samples of very different sizes
    assert part.bytes_of() == pytest.approx(scale * whole.bytes_of(), abs=slack)
    if name not in DRAWN | FRAMED:
        # The end of a file read in chunks is as long as it happens to be.
        inside = part.offset + part.length < part.files.sizes[part.file]
        small = part.length[inside & (part.length <= PIECE // 8) & (part.length > 0)]
        assert set(np.unique(small[small % 512 == 0])) <= set(np.unique(whole.length)) | {PIECE // 8}


@pytest.mark.parametrize("name", BY_NAME)
def test_what_a_model_says_of_itself_is_so(name):
    model = BY_NAME[name]
    records = model.records()
    assert bool((records.op != 0).any()) == model.writes
    assert bool((records.op == FSYNC).any()) == (model.durability == "fsync")
    assert model.writes or WRITE not in records.op
    assert records.files.bytes < 3 << 29, "the default is for a laptop"
    assert records.stages
    assert model.source.strip()
    for parameter in model.parameters:
        assert parameter.help.strip(), parameter.name


@pytest.mark.parametrize("name", BY_NAME)
def test_steps_of_a_chain_ask_for_something_and_ranks_are_there(name):
    records = BY_NAME[name].records()
    assert (np.diff(records.first) > 0).all()
    assert set(np.unique(records.rank)) == set(range(records.ranks))


@pytest.mark.parametrize("name", [name for name in BY_NAME if name != "pretrain/dataset_text"])
@pytest.mark.parametrize("scale", [2.0])
def test_more_than_the_whole_is_refused_or_is_more(name, scale):
    model = BY_NAME[name].with_values(SMALL.get(name, {}))
    try:
        more = model.with_values({"scale": scale}).records()
    except ConfigError as error:
        more = str(error)
    if isinstance(more, str):
        assert "use a number above 0 and up to 1" in more
    else:
        assert more.bytes_of() > 1.5 * model.with_values({"scale": 1.0}).records().bytes_of()


def test_what_the_suites_of_mlperf_run_is_labelled():
    suites = Path(__file__).parents[4] / "bench_suites" / "mlperf"
    named = {name for file in suites.glob("test_*.py") for name in re.findall(r'"(\w+/\w+)', file.read_text())}
    models = {model.name: model for model in MODELS}
    assert len(named) >= 6
    assert {name for name in named if models[name].note != "not an MLPerf submission"} == set()
