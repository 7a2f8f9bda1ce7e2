"""``gpuio trace`` from its arguments to its text, JSON and files."""

import json
import os
import re
from pathlib import Path

import pytest

from pytest_gpuio.cli import main
from pytest_gpuio.cli.trace import parser
from pytest_gpuio.phases import traces
from pytest_gpuio.phases.kv_cache import GRANULARITIES
from pytest_gpuio.phases.traces.writers import WRITERS

SHARED = Path(os.environ.get("GPUIO_SHARED_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
#: Two conversations that share 512 tokens; block 0 is found again, 1,000 ms later.
REQUESTS = [
    {"timestamp": 0, "input_length": 1024, "output_length": 9, "hash_ids": [0, 1]},
    {"timestamp": 1000, "input_length": 1000, "output_length": 9, "hash_ids": [0, 2]},
    {"timestamp": 3000, "input_length": 512, "output_length": 9, "hash_ids": [0]},
]
KV = ["--bytes-per-token", "256", "--prefill", "1000"]


@pytest.fixture
def requests(tmp_path):
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in REQUESTS))
    return str(path)


@pytest.fixture
def said(capsys):
    def run(*arguments, status=0):
        assert main(["trace", *map(str, arguments)]) == status
        out, err = capsys.readouterr()
        return out if status == 0 else err

    return run


def test_info_of_requests(requests, said):
    found = json.loads(said("info", requests, "--json", "--speed", "4"))
    assert (found["format"], found["records"], found["span_s"], found["projected_s"]) == ("mooncake", 3, 3.0, 0.75)
    assert found["input_tokens"] == {"total": 2536, "p5": 512, "p50": 1000, "p95": 1024, "p99": 1024, "max": 1024}
    assert found["blocks"]["hits"] == 2
    assert found["blocks"]["hit_ratio"] == 0.4
    text = said("info", requests, "--speed", "4")
    assert "3 over 3 s" in text
    assert "0.75 s at speed 4 (--speed)" in text
    assert "2 (40.0 %) in a cache that keeps everything" in text


def test_info_of_block_io(tmp_path, said):
    path = tmp_path / "io.csv"
    path.write_text("1000, R, 4096, 8, 8\n2000, R, 4096, 16, 8\n5000, W, 512, 0, 1\n")
    found = json.loads(said("info", path, "--json"))
    assert found["operations"]["read"] == {"count": 2, "bytes": 8192}
    assert found["operations"]["write"] == {"count": 1, "bytes": 512}
    assert found["sequential_share"] == pytest.approx(1 / 3)
    text = said("info", path)
    assert "a trace of I/O" in text
    assert "2, 8,192 bytes (8 KiB)" in text
    assert "33.3 %" in text


def test_simulate_by_hand(requests, said):
    command = ["simulate", requests, *KV, "--device", "0.001", "--latency-us", "0", "--sweep", "0,128k,1GiB"]
    found = json.loads(said(*command, "--json"))
    page = 512 * 256
    assert found["page"] == {"tokens": 512, "bytes": page}
    assert (found["pages"]["uses"], found["pages"]["storage"], found["pages"]["written"]) == (5, 2, 3)
    assert found["storage"]["bytes_read"] == 2 * page
    assert found["storage"]["bytes_written"] == 3 * page
    assert found["prefill"]["new_tokens"] == 1024 + 488 + 1
    # One page fits in 128k: block 0 is the most recent one neither time that it is used again.
    assert [row["storage_share"] for row in found["sweep"]] == [1.0, 1.0, 0.0]
    # A page takes 131 ms at 1 MB/s, and nothing else is in the queue.
    assert found["projection"]["fetch"]["p99_ns"] == page * 1000
    assert found["projection"]["fetch"]["over_ms"]["100"] == pytest.approx(2 / 3)
    text = said(*command)
    assert "in storage      2 (100.0 % of the hits)" in text
    assert "projected, not measured" in text
    assert "131ms" in text


def test_tiers_take_hits_away_from_storage(requests, said):
    found = json.loads(said("simulate", requests, *KV, "--hbm", "128k", "--dram", "1m", "--json"))
    assert (found["pages"]["hbm"], found["pages"]["dram"], found["pages"]["storage"]) == (0, 2, 0)
    assert found["projection"] is None


def test_a_models_numbers(requests, said):
    command = ["simulate", requests, "--model", "llama-3.1-8b", "--granularity", "fragment", "--json"]
    found = json.loads(said(*command))
    assert found["token_bytes"] == 131_072
    assert found["layer_wise"]
    assert found["prefill"]["tokens_per_s"] == pytest.approx(24_600, rel=0.005)
    half = json.loads(said(*command, "--tp", "2"))
    assert half["token_bytes"] == 65_536
    assert half["prefill"]["tokens_per_s"] == pytest.approx(2 * found["prefill"]["tokens_per_s"])


def test_convert_requests_to_every_format(requests, tmp_path, said):
    for name in WRITERS:
        out = tmp_path / f"out-{name}"
        cache = [] if name == "mooncake" else KV
        done = json.loads(said("convert", requests, out, "--to", name, *cache, "--json"))
        assert (done["to"], done["lines"], done["bytes"]) == (
            name,
            len(out.read_text().splitlines()),
            out.stat().st_size,
        )
    assert traces.load(tmp_path / "out-mooncake").input_tokens.tolist() == [1024, 1000, 512]
    log = traces.load(tmp_path / "out-iolog")
    assert (log.bytes_of(0), log.bytes_of(1)) == (2 * 131_072, 3 * 131_072)
    objects = traces.load(tmp_path / "out-mlperf-kv")
    assert [objects.stages[stage] for stage in objects.stage] == ["Decode", "Prefill", "Prefill", "Prefill", "Decode"]
    assert "rwmixread=40" in (tmp_path / "out-fio-job").read_text()


def test_a_named_file_holds_the_whole_trace(tmp_path, said):
    path, out = tmp_path / "msr.csv", tmp_path / "out"
    path.write_text("128166372003061629,hm,0,Read,900000000000,4096,1\n128166372003071629,hm,1,Write,4096,8192,1\n")
    text = said("convert", path, out, "--to", "iolog", "--filename", "/mnt/nvme0/t.dat")
    lines = out.read_text().splitlines()
    # Two devices, one of them large: two touched megabytes.
    assert lines[1:3] == ["1 /mnt/nvme0/t.dat add", "1 /mnt/nvme0/t.dat open"]
    assert [line.split()[2:] for line in lines if " read " in line or " write " in line] == [
        ["read", str(900000000000 % (1 << 20)), "4096"], ["write", str((1 << 20) + 4096), "8192"],
    ]  # fmt: skip
    assert "fio writes /mnt/nvme0/t.dat when it replays this" in text
    assert "which lasts 0.001 s" in text
    kept = tmp_path / "kept"
    said("convert", path, kept, "--to", "iolog")
    assert "1 hm.0 add" in kept.read_text()


def test_parts_of_a_trace(requests, said):
    for part, records in ((["--for", "2s"], 2), (["--from", "1s"], 2), (["--first", "1"], 1), (["--from", "0"], 3)):
        assert json.loads(said("info", requests, "--json", *part))["records"] == records
    assert "from 9 s on there is nothing" in said("info", requests, "--from", "9s", status=2)


def test_stamps_in_steps_are_spread_unless_kept(tmp_path, said):
    path = tmp_path / "steps.jsonl"
    rows = [{"timestamp": step * 3000, "input_length": 1, "output_length": 1, "hash_ids": [step * 4 + k]}
            for step in range(20) for k in range(4)]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert json.loads(said("info", path, "--json"))["quantum_s"] == 3.0
    assert "in steps of 3 s" in said("info", path)
    spread, kept = tmp_path / "spread", tmp_path / "kept"
    # Of a part that is too short to show the steps, too.
    text = said("convert", path, spread, "--to", "mooncake", "--first", "4")
    assert "stamps are 3 s apart: arrivals spread over each step, seed 1" in text
    said("convert", path, kept, "--to", "mooncake", "--first", "4", "--stamps", "keep")
    assert len(set(traces.load(spread).time_ns.tolist())) == 4
    assert set(traces.load(kept).time_ns.tolist()) == {0}


def test_nothing_that_exists_is_overwritten(requests, tmp_path, said):
    out = tmp_path / "out"
    out.write_text("mine")
    assert "out exists: name another path" in said("convert", requests, out, "--to", "mooncake", status=2)
    assert out.read_text() == "mine"
    dangling = tmp_path / "link"
    dangling.symlink_to(tmp_path / "elsewhere")
    assert "link exists" in said("convert", requests, dangling, "--to", "mooncake", status=2)
    assert not (tmp_path / "elsewhere").exists()
    missing = tmp_path / "no" / "out"
    assert "cannot be written: No such file" in said("convert", requests, missing, "--to", "mooncake", status=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "out", "requests.jsonl"]


def test_a_refused_conversion_leaves_no_file(requests, tmp_path, said):
    out = tmp_path / "out"
    text = said("convert", requests, out, "--to", "iolog", *KV, "--filename", "a b", status=2)
    assert "'a b' cannot be a file of an iolog" in text
    assert [path.name for path in tmp_path.iterdir()] == ["requests.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["info", "OUT", "OUT"], "takes a second path"),
        (["convert", "IN"], "takes a second path"),
        (["convert", "IN", "OUT"], "--to says what convert writes"),
        (["info", "IN", "--to", "iolog"], "--to says what convert writes"),
        (["simulate", "IN"], "how large is a token's cache"),
        (["simulate", "IN", "--model", "llama-3.1-8b", "--bytes-per-token", "1"], "not both"),
        (["simulate", "IN", "--bytes-per-token", "0", "--prefill", "1"], "outside 1"),
        (["simulate", "IN", "--bytes-per-token", "8"], "name --prefill"),
        (["simulate", "IN", *KV, "--hbm", "-1"], "--hbm '-1' is not a size"),
        (["simulate", "IN", *KV, "--storage", "1k", "--dram", "1m"], "is smaller than"),
        (["simulate", "IN", *KV, "--device", "0"], "cannot be projected"),
        (["simulate", "IN", *KV, "--speed", "0"], "speed 0 is outside"),
        (["simulate", "IN", *KV, "--granularity", "fragment"], "name the model"),
        (["simulate", "IN", *KV, "--sweep", "x"], "--sweep 'x' is not a size"),
        (["info", "IN", "--format", "csv"], "is none of mooncake"),
        (["info", "IN", "--from", "x"], "--from 'x' is not a duration"),
        (["info", "IN", "--first", "0"], "is nothing of"),
        (["info", "IN", "--seed", "1", "--event", "D"], "--event means nothing for mooncake traces"),
        (["info", "MISSING"], "cannot be read: ENOENT"),
    ],
)
def test_what_is_refused(requests, tmp_path, said, arguments, why):
    places = {"IN": requests, "OUT": str(tmp_path / "out"), "MISSING": str(tmp_path / "missing")}
    text = said(*(places.get(argument, argument) for argument in arguments), status=2)
    assert text.startswith("gpuio: ")
    assert why in text
    assert "Traceback" not in text


def test_block_traces_do_not_go_through_tiers(tmp_path, said):
    path = tmp_path / "io.csv"
    path.write_text("1000, R, 4096, 8, 8\n")
    assert "cache tiers take traces of requests" in said("simulate", path, *KV, status=2)


def test_help_names_every_format(capsys):
    assert main(["trace", "--help"]) == 0
    text = capsys.readouterr().out
    for name in (*traces.FORMATS, *WRITERS):
        assert re.search(rf"^    {re.escape(name)} ", text, re.MULTILINE)
    assert "gpuio trace simulate conversation_trace.jsonl --model llama-3.1-8b" in text


def test_the_published_trace_from_the_command_line(said):
    path = SHARED / "mooncake/conversation_trace.jsonl"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    found = json.loads(said("simulate", path, "--model", "llama-3.1-8b", "--dram", str(1000 << 26), "--json"))
    assert found["pages"]["hit_ratio"] == pytest.approx(0.366, abs=0.001)
    assert found["pages"]["storage_share"] == pytest.approx(0.879, rel=0.02)
    # GiB/s of workloads.md 1.3; the spread of the last step makes the span 0.1 % longer.
    assert found["storage"]["read_bytes_per_s"] / 2**30 == pytest.approx(1.64, rel=0.02)
    assert found["storage"]["written_bytes_per_s"] / 2**30 == pytest.approx(3.23, rel=0.02)


def test_the_page_names_what_there_is():
    page = (Path(__file__).resolve().parents[3] / "docs/traces.md").read_text(encoding="utf-8")
    first = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert set(first) - {"--granularity", "--to"} == {*traces.FORMATS, *WRITERS, *GRANULARITIES}
    flags = set(re.findall(r"--[a-z][a-z-]+", parser().format_help()))
    theirs = {"--name", "--read", "--ioengine", "--iodepth", "--direct", "--io-trace-log", "--read_iolog"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z_-]+", page)) - theirs <= flags


def test_the_python_example_of_the_page_runs(monkeypatch):
    source = SHARED / "mooncake/conversation_trace.jsonl"
    if not source.is_file():
        pytest.skip(f"{source} is not here")
    page = (Path(__file__).resolve().parents[3] / "docs/traces.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(source.parent)
    names = {}
    exec(example, names)
    assert names["records"].bytes_of(1) > 0
