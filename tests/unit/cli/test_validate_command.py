import json
from pathlib import Path

from pytest_gpuio.cli import main
from pytest_gpuio.results import journal, run_file

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "cell_record.json").read_text())


def written(path, *cells):
    block = run_file.benchmark_block(interrupted=False, machine={}, settings={})
    run_file.write_results(path, run_file.results(block, cells))
    return str(path)


def test_valid_files_are_0(tmp_path, capsys):
    files = [written(tmp_path / name, GOLDEN) for name in ("a.json", "b.json")]
    assert main(["validate", *files]) == 0
    assert capsys.readouterr().out == f"{files[0]}: valid\n{files[1]}: valid\n"


def test_problems_are_1_and_listed_by_file(tmp_path, capsys):
    bad = written(tmp_path / "bad.json", {**GOLDEN, "iops": 1.0})
    good = written(tmp_path / "good.json", GOLDEN)
    torn = tmp_path / "torn.json"
    torn.write_text('{"kind": ')
    assert main(["validate", bad, good, str(torn)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{bad}: cells[0] test_inference.test_kv_fetch|")
    assert lines[0].endswith("iops x seconds is 1.0, but ios is 20000")
    assert lines[1:] == [f"{good}: valid", f"{torn}:1:10: not JSON: Expecting value."]


def test_a_missing_file_is_2(tmp_path, capsys):
    assert main(["validate", str(tmp_path / "nowhere.json")]) == 2
    assert capsys.readouterr().err == f"gpuio: {tmp_path}/nowhere.json cannot be read: No such file or directory.\n"


def test_a_journal_that_was_cut_off_is_checked_line_by_line(tmp_path, capsys):
    path = tmp_path / "journal.jsonl"
    with journal.Journal.create(path) as kept:
        kept.append("cell", GOLDEN)
    with path.open("ab") as file:
        file.write(b'{"crc":"0000')
    assert main(["validate", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: valid\n"

    wrong = tmp_path / "wrong.jsonl"
    with journal.Journal.create(wrong) as kept:
        kept.append("cell", GOLDEN)
        kept.append("cell", {**GOLDEN, "iops": 1.0})
    assert main(["validate", str(wrong)]) == 1
    assert capsys.readouterr().out.startswith(f"{wrong}: line 2: iops x seconds is 1.0")


def test_a_journal_with_a_spoilt_line_is_2(tmp_path, capsys):
    path = tmp_path / "journal.jsonl"
    with journal.Journal.create(path) as kept:
        kept.append("cell", GOLDEN)
    path.write_bytes(path.read_bytes().replace(b"20000", b"20001", 1))
    assert main(["validate", str(path)]) == 2
    assert "checksum" in capsys.readouterr().err
