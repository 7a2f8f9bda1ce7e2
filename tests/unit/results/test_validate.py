import copy
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.results import journal, run_file, validate

GOLDEN = Path(__file__).parents[2] / "golden" / "cell_record.json"


@pytest.fixture
def record():
    return json.loads(GOLDEN.read_text())


@pytest.fixture(scope="module")
def plain_benchmark_json(tmp_path_factory):
    """What pytest-benchmark itself writes: four rounds of 5,000 I/Os, by a clock that repeats given seconds."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "test_plain.py").write_text(
        """
import pytest

windows = [0.25, 0.25, 0.125, 0.375]
stamps = iter([stamp for seconds in windows for stamp in (0.0, seconds)])

@pytest.mark.benchmark(timer=lambda: next(stamps))
def test_windows(benchmark):
    benchmark.pedantic(lambda: None, rounds=4, iterations=5_000)

@pytest.mark.benchmark(min_rounds=2, max_time=0.01)
def test_other(benchmark):
    benchmark(sum, range(100))
"""
    )
    out = folder / "out.json"
    subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:gpuio",
            "-q",
            f"--benchmark-json={out}",
            str(folder),
        ],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        check=True,
        capture_output=True,
        timeout=120,
    )
    return json.loads(out.read_text())


def of(document, name):
    return next(bench for bench in document["benchmarks"] if bench["name"] == name)


@pytest.fixture
def benchmark_json(plain_benchmark_json, record):
    document = copy.deepcopy(plain_benchmark_json)
    of(document, "test_windows")["extra_info"]["gpuio"] = record
    document["gpuio"] = run_file.benchmark_block(interrupted=False, machine={}, settings={})
    return document


def written(tmp_path, document):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    return validate.validate_file(path)


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(validate.schema())


def test_the_root_of_the_schema_takes_cells_and_results(record):
    """As somebody with another JSON Schema tool would use the shipped file."""
    check = jsonschema.Draft202012Validator(validate.schema())
    block = run_file.benchmark_block(interrupted=False, machine={}, settings={})
    assert check.is_valid(record)
    assert check.is_valid(run_file.results(block, [record]))
    assert not check.is_valid(block)
    assert not check.is_valid({**record, "extra": 1})


def objects(schema, place="$"):
    """Every subschema that describes an object, with its place."""
    if isinstance(schema, dict):
        if "object" in (schema.get("type") or ()):
            yield place, schema
        for key, value in schema.items():
            yield from objects(value, f"{place}.{key}")
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from objects(value, f"{place}[{index}]")


#: Blocks of some data paths or suites only: a record without them has none.
OPTIONAL = {
    "cell": {"cufile", "library", "replay", "gpu_meter", "ranks", "gate_policy"},
    "effective": {"route"},
    "gate_policy": {"metric", "min_effect", "ignore"},
    "axes": {"gpus", "ranks"},
    "replay": {"background", "lag"},
    "completion": {"requests", "ttft_share", "ttft_share_p50", "stages"},
    "placement": {"real_time"},
    "stall": {"kernel"},
    # Of the GPUs' shares.
    "items": {"distance", "evidence"},
}


def test_objects_are_closed_and_complete_except_free_maps():
    free = []
    for place, schema in objects(validate.schema()):
        if "properties" in schema:
            assert schema["additionalProperties"] is False, place
            required = set(schema["properties"]) - OPTIONAL.get(place.split(".")[-1], set())
            assert set(schema.get("required", ())) == required, place
        else:
            free.append(place.split(".")[-1] if not place.endswith("items") else place.split(".")[-2])
    assert sorted(set(free)) == ["devices", "elsewhere", "machine", "over_ms", "parameters", "settings", "stages"]


def test_the_golden_record_is_valid(record):
    assert validate.validate_cell(record) == []


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path


def put(record, path, value):
    for key in path[:-1]:
        record = record[key]
    record[path[-1]] = value


def test_no_field_may_be_missing_or_of_another_type(record):
    free = {("target", "devices")}
    for path in leaves(record):
        if path[:2] in free:
            continue
        spoilt = copy.deepcopy(record)
        put(spoilt, path, {"not": "this"})
        assert validate.validate_cell(spoilt), f"{path} may be anything"
        spoilt = copy.deepcopy(record)
        parent = spoilt
        for key in path[:-1]:
            parent = parent[key]
        del parent[path[-1]]
        assert validate.validate_cell(spoilt), f"{path} may be missing"


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("latency", "slat_reason"), None, "latency.slat_reason: None is not of type 'string'"),
        (("latency", "lat", "p99_ns"), None, "latency.lat.p99_ns"),
        (("device", "known"), False, "device.reason: None is not of type 'string'"),
        (("device", "read_bytes"), None, "device.read_bytes"),
        (("axes", "workload"), "kv_fetch", "axes.workload: 'kv_fetch' does not match"),
        (("iops",), 20_001.0, "iops x seconds is 20001.0, but ios is 20000"),
        (("iops",), 20_000 * (1 + 1e-8), "iops x seconds"),
        (("seconds",), 1.5, "sum of windows.seconds is 1.0, but seconds is 1.5"),
        (("gb_per_s",), 1.22, "gb_per_s x 1e9"),
        (("gib_per_s",), 1.31072, "gib_per_s x 2^30"),
        (("bytes",), 5, "bytes_per_s x seconds"),
        (("reads",), 1, "reads + writes is 1, but ios is 20,000"),
        (("windows", "ios_per_window"), 4_999, "windows.count x ios_per_window is 19,996, but ios is 20,000"),
        (("windows", "start_ns"), [1], "number of windows.start_ns is 1, but windows.count is 4"),
        (("cpu", "cores_used"), 0.7, "cpu.cores_used x seconds is 0.7, but cpu seconds of all parts is 0.5"),
        (("cpu", "cores_reserved"), 0.4, "cpu.cores_reserved is 0.4, less than cpu.cores_used 0.5"),
        (("cpu", "irq_s"), 0.1, "but cpu seconds of all parts is 0.6"),
        (("cpu", "control", "elsewhere_s"), 0.3, "cpu.control.elsewhere does not add up to elsewhere_s 0.3"),
        (("cpu", "control", "truth_s"), 1.0, "cpu.control adds up to 0.875, but truth_s is 1.0"),
        (("cpu", "cycles_per_io"), 5.0, "cpu.cycles_per_io is 5.0, yet perf_reason says why it is null"),
        (("cpu", "sq_reason"), None, "cpu.sq_useful_share is null without sq_reason"),
        (("latency", "lat", "p99_ns"), 1_700_000, "latency.lat: p99_ns is 1700000, but the histogram says 2007039"),
        (("latency", "lat", "overflow"), 1, "latency.lat: histogram and overflow hold 20,001 values"),
        (("latency", "lat", "mean_ns"), 6e6, "latency.lat: mean 6000000.0 ns is outside"),
        (("latency", "lat", "histogram"), "gh1:AAAA", "latency.lat: histogram 'gh1:AAAA'... is damaged"),
        (("phase",), "pretrain", "phase 'pretrain' is not the one of workload 'inference/kv_fetch'"),
        (("axes", "qd"), 16, "is not its suite and axes"),
        (("requested", "datapath"), "libaio", "requested datapath is 'libaio', but the axis says 'io_uring'"),
        (("gates", 0, "state"), "failed", "gate no_errors found the result impossible"),
    ],
)
def test_what_cannot_be_is_named(record, path, value, problem):
    put(record, path, value)
    problems = validate.validate_cell(record)
    assert any(problem in text for text in problems), problems


def test_a_results_file_names_the_cell(tmp_path, record):
    block = run_file.benchmark_block(interrupted=False, machine={}, settings={})
    assert written(tmp_path, run_file.results(block, [record])) == []
    bad = {**record, "iops": 1.0}
    (problem,) = written(tmp_path, run_file.results(block, [record, bad]))
    assert problem.startswith("cells[1] test_inference.test_kv_fetch|")
    del bad["iops"]
    assert written(tmp_path, run_file.results(block, [record, bad])) == ["cells[1]: 'iops' is a required property"]
    assert written(tmp_path, {**run_file.results(block, []), "created": "yesterday"}) != []


def test_real_pytest_benchmark_json_is_valid(tmp_path, benchmark_json):
    assert written(tmp_path, benchmark_json) == []


def test_ops_is_iops(tmp_path, benchmark_json, record):
    of(benchmark_json, "test_windows")["stats"]["ops"] *= 1 + 1e-8
    (problem,) = written(tmp_path, benchmark_json)
    assert "test_windows: ops is 20000.000" in problem
    assert problem.endswith("but extra_info iops is 20000.0")


def test_rounds_and_total_are_the_windows(tmp_path, benchmark_json):
    stats = of(benchmark_json, "test_windows")["stats"]
    stats["rounds"], stats["total"] = 3, stats["total"] * 2
    problems = written(tmp_path, benchmark_json)
    assert ["rounds is 3" in problems[0], "total is" in problems[1], len(problems)] == [True, True, 2]
    del stats["ops"]
    assert "stats lack a number: 'ops'" in written(tmp_path, benchmark_json)[0]


def test_a_broken_block_or_benchmark_is_named(tmp_path, benchmark_json):
    benchmark_json["gpuio"]["cells"] = []
    benchmark_json["benchmarks"].append(None)
    problems = written(tmp_path, benchmark_json)
    assert problems[0].startswith("gpuio: Additional properties are not allowed ('cells'")
    assert problems[1] == "benchmarks[2]: not a benchmark of pytest-benchmark's JSON"


def test_json_without_anything_of_ours_is_a_problem(tmp_path, plain_benchmark_json):
    (problem,) = written(tmp_path, plain_benchmark_json)
    assert problem.startswith("no gpuio record or block")


@pytest.mark.parametrize("document", [{}, [], 1, {"benchmarks": {}}, {"kind": "other"}])
def test_other_json_is_a_problem(tmp_path, document):
    (problem,) = written(tmp_path, document)
    assert problem.startswith("neither a gpuio results file")


def test_text_that_is_not_strict_json_is_a_problem(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"kind": NaN}')
    assert validate.validate_file(path) == [f"{path}:1:10: NaN is not JSON."]


def test_many_problems_are_cut(tmp_path):
    block = run_file.benchmark_block(interrupted=False, machine={}, settings={}, skips=[1] * 1_000)
    problems = written(tmp_path, run_file.results(block, []))
    assert len(problems) == 21
    assert problems[-1] == "... and more"


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(GpuioError, match="cannot be read"):
        validate.validate_file(tmp_path / "nowhere")


def test_without_jsonschema_the_remedy_is_named(monkeypatch, record):
    real = importlib.import_module

    def missing(name, package=None):
        if name == "jsonschema":
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(GpuioError, match="pip install jsonschema"):
        validate.validate_cell(record)


def test_every_line_of_a_journal_is_checked(record, tmp_path):
    void = {"case": "v", "axes": record["axes"], "gate": "littles_law", "reason": "off", "evidence": []}
    skip = {"nodeid": "t", "case": "s", "reason": "needs x"}
    start = run_file.start(machine={}, settings={})
    path = tmp_path / "j.jsonl"
    with journal.Journal.create(path) as out:
        for kind, body in (("start", start), ("cell", record), ("void", void), ("skip", skip), ("failure", skip)):
            out.append(kind, body)
    assert validate.validate_file(path) == []
    bad = tmp_path / "bad.jsonl"
    with journal.Journal.create(bad) as out:
        for kind, body in (("start", {**start, "schema": 2}), ("void", skip), ("skip", void), ("cow", {})):
            out.append(kind, body)
    told = validate.validate_file(bad)
    assert {problem.partition(":")[0] for problem in told} == {"line 1", "line 2", "line 3", "line 4"}
    assert told[-1] == "line 4: an entry of the unknown kind 'cow'"


@pytest.mark.parametrize(("axis", "value"), [("gpus", 2), ("ranks", 4)])
def test_axes_that_only_some_cells_have_end_the_case(record, axis, value):
    record["axes"] = record["axes"] | {axis: value}
    assert any("is not its suite and axes" in problem for problem in validate.validate_cell(record))
    record["case"] += f"|{axis}={value}"
    assert not any("is not its suite and axes" in problem for problem in validate.validate_cell(record))
