"""``gpuio gate`` on files."""

import json
import random
from pathlib import Path

import pytest

from pytest_gpuio.cli.command import main


@pytest.fixture
def store(record, tmp_path):
    """Function: files of runs with 1 % noise around a factor; their paths."""
    draw = random.Random(3)
    minutes = iter(range(1000))

    def make(folder, count, factor=1.0):
        (tmp_path / folder).mkdir(exist_ok=True)
        paths = []
        for number in range(count):
            path = tmp_path / folder / f"{number:04}.json"
            cell = record(factor * (1 + draw.gauss(0, 0.01)))
            when = f"2026-01-01T{next(minutes) // 60:02}:{next(minutes) % 60:02}:00"
            machine = {"gpuio": {"machine": {"id": "a", "kernel": "6.1"}}}
            content = {"datetime": when, "machine_info": machine, "benchmarks": [{"extra_info": {"gpuio": cell}}]}
            path.write_text(json.dumps(content))
            paths.append(str(path))
        return paths

    return make


def test_from_candidate_to_verdict(store, tmp_path, capsys):
    old, new, again = store("old", 12), store("new", 6, 1.1), store("again", 8, 1.1)
    base = ["gate", "--baseline", str(tmp_path / "old"), "--new", *new]
    assert main(base) == 3
    assert "to be measured once more" in capsys.readouterr().out
    summary, junit, data = tmp_path / "s.md", tmp_path / "j.xml", tmp_path / "d.json"
    summary.write_text("before\n")
    more = ["--confirm", *again, "--markdown", str(summary), "--junit", str(junit), "--json", str(data)]
    assert main([*base, *more]) == 1
    assert "SLOWER" in capsys.readouterr().out
    assert summary.read_text().startswith("before\n### gpuio gate: FAILED")
    assert "<failure" in junit.read_text()
    assert json.loads(data.read_text())["counts"] == {"SLOWER": 3}
    assert main(["gate", "--baseline", *old, "--new", *new, "--min-effect", "50%"]) == 0


def test_json_on_standard_output_is_all_there_is(store, capsys):
    assert main(["gate", "--baseline", *store("old", 8), "--new", *store("new", 3), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "gpuio-gate"


def test_baseline_last(store, capsys):
    store("x", 8, 3.0)
    old = store("old", 12)
    assert main(["gate", "--baseline", *old, "--baseline-last", "9", "--new", *store("new", 3), "--json", "-"]) == 0
    assert len(json.loads(capsys.readouterr().out)["baseline"]) == 9


def test_baseline_last_counts_runs_of_the_same_machine(store, tmp_path, capsys):
    old, new, others = store("old", 9), store("new", 3), store("others", 20)
    for path in others:
        Path(path).write_text(Path(path).read_text().replace('"id": "a"', '"id": "b"'))
    both = [str(tmp_path / "old"), str(tmp_path / "others")]
    command = ["gate", "--baseline", *both, "--baseline-last", "8", "--json", "-"]
    assert main([*command, "--new", *new]) == 0
    assert json.loads(capsys.readouterr().out)["baseline"] == old[1:]
    assert main(["gate", "--baseline", *others, "--baseline-last", "8", "--new", *new, "--json", "-"]) == 4
    assert json.loads(capsys.readouterr().out)["counts"] == {"INCOMPARABLE": 1}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name both"),
        (["--baseline", "none.json", "--new", "none.json"], "none.json does not exist"),
        (["--baseline", "OLD", "--new", "OLD"], "a run cannot be its own baseline"),
        (["--baseline", "OLD", "--new", "NEW", "--metric", "speed"], "choose from bytes_per_s"),
        (["--baseline", "OLD", "--new", "NEW", "--min-effect", "3"], "--min-effect: min_effect '3' is no share"),
        (["--baseline", "OLD", "--new", "NEW", "--allow", "x"], "nothing named 'x'"),
        (["--baseline", "OLD", "--new", "NEW", "--baseline-last", "0"], "at least one run"),
        (["--baseline", "OLD", "--new", "NEW", "--policy", "none.toml"], "policy none.toml cannot be read"),
        (["--baseline", "OLD", "--new", "NEW", "--pairs", "--lookback"], "not allowed with"),
        (["--baseline", "OLD", "--new", "NEW", "--junit", "/none/x.xml"], "cannot be written"),
        (["--simulate", "0"], "--simulate 0"),
    ],
)
def test_mistakes_are_named(store, capsys, arguments, told):
    old, new = store("old", 1)[0], store("new", 1)[0]
    assert main(["gate", *({"OLD": old, "NEW": new}.get(a, a) for a in arguments)]) == 2
    assert told in capsys.readouterr().err


def test_simulation(capsys):
    assert main(["gate", "--simulate", "2", "--json", "-"]) == 0
    assert len(json.loads(capsys.readouterr().out)["situations"]) == 24
