"""Real outputs of fio, also polluted ones, and what is never claimed about them."""

import json
from pathlib import Path

import pytest

from pytest_gpuio.analysis.recommend import recommend
from pytest_gpuio.cli.command import main
from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.results.fio_import import LACKS, import_fio
from pytest_gpuio.results.runs import read_run

DATA = Path(__file__).parents[2] / "data/fio"


def test_figures_are_fios_own():
    (cell,) = import_fio(DATA / "psync.json")["cells"]
    job = json.loads((DATA / "psync.json").read_text())["jobs"][0]["read"]
    assert (cell["ios"], cell["bytes"], cell["seconds"]) == (job["total_ios"], job["io_bytes"], 0.301)
    assert cell["iops"] == pytest.approx(job["iops"], rel=1e-4)
    assert cell["latency"]["lat"]["p99_ns"] == job["lat_ns"]["percentile"]["99.000000"]
    assert cell["axes"]["datapath"] == cell["effective"]["datapath"] == "fio:psync"
    assert (cell["axes"]["workload"], cell["axes"]["bs"], cell["axes"]["cache"]) == ("micro/randread", 4096, "direct")
    assert cell["cpu"]["cores_used"] is None
    assert cell["imported"]["cores_told"] == pytest.approx(0.9966, abs=1e-3)
    assert cell["imported"]["lacks"] == list(LACKS)


def test_mixed_jobs_writes_and_pollers():
    (mixed,) = import_fio(DATA / "mixed_two_jobs.json")["cells"]
    assert (mixed["axes"]["jobs"], mixed["axes"]["qd"], mixed["axes"]["workload"]) == (2, 32, "micro/randrw")
    (write,) = import_fio(DATA / "randwrite.json")["cells"]
    assert (write["writes"], write["reads"]) == (write["ios"], 0)
    (poller,) = import_fio(DATA / "sqpoll.json")["cells"]
    assert poller["effective"]["datapath"] == "fio:io_uring"  # what was polled is not proved, so not said


def test_polluted_output_and_several_in_one_file(tmp_path):
    one = (DATA / "psync.json").read_text()
    path = tmp_path / "polluted.txt"
    path.write_text(f"fio: this platform {{is odd}}\n{one}\nnote: {{}}\n{one}tail")
    cells = import_fio(path)["cells"]
    assert [cell["suite"] for cell in cells] == ["fio.gpuio", "fio.gpuio#2"]
    assert len({cell["case"] for cell in cells}) == 2


def test_a_failed_job_is_left_out_by_name(tmp_path):
    with pytest.raises(ConfigError, match="nothing to import: no job did a request"):
        import_fio(DATA / "missing_file.txt")
    output = json.loads((DATA / "psync.json").read_text())
    output["jobs"].append({"jobname": "bad", "error": 5})
    path = tmp_path / "both.json"
    path.write_text(json.dumps(output))
    content = import_fio(path)
    assert len(content["cells"]) == 1
    assert content["failures"][0]["nodeid"].endswith("::bad")


def test_json_plus_bins_and_options_of_the_global_section(tmp_path):
    output = json.loads((DATA / "psync.json").read_text())
    (job,) = output["jobs"]
    output["global options"] = job.pop("job options")
    lat = job["read"]["lat_ns"]
    del lat["percentile"]
    lat["bins"] = {"1000": 90, "2000": 9, "9000": 1}
    path = tmp_path / "plus.json"
    path.write_text(json.dumps(output))
    (cell,) = import_fio(path)["cells"]
    assert cell["axes"]["datapath"] == "fio:psync"
    assert [cell["latency"]["lat"][key] for key in ("p50_ns", "p95_ns", "p999_ns")] == [1000, 2000, 9000]


def test_percentiles_of_completion_stand_in_where_fio_has_no_others(tmp_path):
    output = json.loads((DATA / "psync.json").read_text())
    part = output["jobs"][0]["read"]
    part["clat_ns"]["percentile"] = part["lat_ns"].pop("percentile")
    path = tmp_path / "default.json"
    path.write_text(json.dumps(output))
    (cell,) = import_fio(path)["cells"]
    assert cell["latency"]["lat"]["p99_ns"] == part["clat_ns"]["percentile"]["99.000000"]


@pytest.mark.parametrize("text", ["", "no braces", "{", '{"jobs": []}', "{" * 5000])
def test_files_without_fio(tmp_path, text):
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(ConfigError, match="holds no JSON of fio"):
        import_fio(path)


def test_garbled_jobs_are_named(tmp_path):
    output = json.loads((DATA / "psync.json").read_text())
    del output["jobs"][0]["read"]["lat_ns"]
    path = tmp_path / "x"
    path.write_text(json.dumps(output))
    with pytest.raises(ConfigError, match="job gpuio lacks or garbles 'lat'"):
        import_fio(path)
    with pytest.raises(GpuioError, match="cannot be read"):
        import_fio(tmp_path / "none")


def test_the_command_and_that_nothing_is_recommended_from_it(tmp_path, capsys):
    out = tmp_path / "out.json"
    assert main(["import", "fio", str(DATA / "psync.json"), "-o", str(out)]) == 0
    assert "1 cell of fio" in capsys.readouterr().out
    assert recommend([read_run(out)]) == []
    assert main(["import", "fio", str(out), "-o", str(out)]) == 2
    other = tmp_path / "other.json"
    other.write_text('{"mine": 1}')
    assert main(["import", "fio", str(DATA / "psync.json"), "-o", str(other)]) == 2
    assert json.loads(other.read_text()) == {"mine": 1}


def test_imported_cells_stand_in_every_table(tmp_path, capsys):
    out = tmp_path / "out.json"
    assert main(["import", "fio", str(DATA / "psync.json"), "-o", str(out), "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], len(told["cells"]), told["left_out"], told["lacks"]) == ("gpuio-import", 1, [], list(LACKS))
    assert main(["report", str(out), "--markdown", "-"]) == 0
    assert "| micro/randread fio:psync unknown target.dat 4k qd1 |" in capsys.readouterr().out
    assert main(["report", str(out), "--json", "-"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert (cell["imported"], cell["reserved"], cell["per_core"]) == (True, None, None)
    assert main(["history", str(out), "--csv", str(tmp_path / "all.csv")]) == 0
    assert main(["recommend", str(out)]) == 1
