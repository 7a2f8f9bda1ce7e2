"""Finding fio, running it, and reading what it prints: recorded output of fio 3.33, and programs that behave badly."""

import json
import stat
import sys
import time
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.crosscheck import fio as fio_module
from pytest_gpuio.crosscheck.fio import Fio, FioError, find_fio, parse, run

DATA = Path(__file__).parents[2] / "data/fio"


def recorded(name):
    return (DATA / name).read_text()


@pytest.fixture
def program(tmp_path):
    """Function: an executable that stands in for fio and runs these lines of Python."""

    def make(lines):
        path = tmp_path / "fio"
        path.write_text(f"#!{sys.executable}\nimport os, sys, time\n{lines}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return Fio(str(path), (3, 33), "fio-3.33")

    return make


def test_a_reading_job():
    result = parse(recorded("psync.json"))
    raw = json.loads(recorded("psync.json"))["jobs"][0]
    assert result.ios == raw["read"]["total_ios"]
    assert result.bytes == raw["read"]["io_kbytes"] * 1024 == result.ios * 4096
    assert result.seconds == pytest.approx(0.3, abs=0.01)
    # fio's own rate, from the same numbers by another way.
    assert result.ios / result.seconds == pytest.approx(raw["read"]["iops"], rel=1e-6)
    assert result.latency["mean"] == raw["read"]["lat_ns"]["mean"]
    assert result.latency["p99"] == raw["read"]["lat_ns"]["percentile"]["99.000000"]
    assert set(result.latency) == {"mean", "p50", "p99", "p999"}
    assert 0.5 < result.cores_told <= 1.01
    assert result.short_ios == 0


def test_a_writing_job():
    result = parse(recorded("randwrite.json"))
    assert result.ios == json.loads(recorded("randwrite.json"))["jobs"][0]["write"]["total_ios"] > 0


def test_reads_and_writes_of_two_jobs_are_one():
    raw = json.loads(recorded("mixed_two_jobs.json"))["jobs"][0]
    result = parse(recorded("mixed_two_jobs.json"), jobs=2)
    assert result.ios == raw["mixed"]["total_ios"]
    # usr_cpu and sys_cpu are shares of the sum of all jobs' time (job_runtime is that sum).
    assert result.cores_told == pytest.approx((raw["usr_cpu"] + raw["sys_cpu"]) / 100 * 2)
    assert raw["job_runtime"] == pytest.approx(2 * raw["mixed"]["runtime"], abs=20)


def test_sqpoll_total_latency_is_sane_where_its_clat_is_not():
    raw = json.loads(recorded("sqpoll.json"))["jobs"][0]["read"]
    result = parse(recorded("sqpoll.json"))
    in_flight = result.ios / result.seconds * result.latency["mean"] / 1e9
    assert in_flight == pytest.approx(32, rel=0.1)  # Little's law, on lat
    assert raw["clat_ns"]["mean"] > 1000 * raw["lat_ns"]["mean"]  # the known fault


def test_lines_before_the_json_are_passed_over():
    text = "fio: this is a warning\nnote: both iodepth >= 1 and synchronous I/O engine are selected\n"
    assert parse(text + recorded("psync.json")) == parse(recorded("psync.json"))


def test_a_failed_job_is_an_error_by_name():
    with pytest.raises(FioError, match=r"fio's job failed: E\w+ \(Operation not supported\)") as caught:
        parse(recorded("failing_hipri.txt"))
    assert "io_u error" in str(caught.value)  # and what fio said of it


def test_a_job_that_did_nothing_is_an_error():
    with pytest.raises(FioError, match="ended without a single request"):
        parse(recorded("missing_file.txt"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "printed no JSON"),
        ("fio: engine nonsense not loadable\n", "engine nonsense not loadable"),
        ("{", "cannot be read"),
        ('{"jobs": 3}', "cannot be read"),
        ('{"jobs": []}', "reports 0 jobs"),
        ('{"jobs": [{"error": 0}]}', "without a single request"),
        ('{"jobs": [{"error": 0, "read": {"total_ios": 5, "runtime": 7}}]}', "lacks or garbles 'lat_ns'"),
    ],
)
def test_what_is_no_result(text, words):
    with pytest.raises(FioError, match=words):
        parse(text)


def test_a_truncated_result_is_an_error_at_every_place():
    text = recorded("psync.json")
    for end in range(0, len(text.rstrip()) - 1, 97):
        with pytest.raises(FioError):
            parse(text[:end])


def test_fio_is_searched_for(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CapabilityMissing, match="fio is not on PATH: install it"):
        find_fio()
    with pytest.raises(CapabilityMissing, match="/nowhere/fio cannot be run"):
        find_fio("/nowhere/fio")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("fio-3.28", r"is fio 3\.28, 3\.33 is needed"),
        ("fio-2.1.3", "is needed"),
        ("hello", "does not say fio's version"),
    ],
)
def test_another_version_is_refused(program, said, words):
    with pytest.raises(CapabilityMissing, match=words):
        find_fio(program(f"print({said!r})").path)


@pytest.mark.parametrize(
    ("said", "version"), [("fio-3.33", (3, 33)), ("fio-3.42-15-gabc", (3, 42)), ("fio-4.0", (4, 0))]
)
def test_a_version_that_will_do(program, said, version):
    found = find_fio(program(f"print({said!r})").path)
    assert found.version == version
    assert str(found) == said


def test_a_run_gives_a_side(program):
    fio = program(f"sys.stdout.write(open({str(DATA / 'psync.json')!r}).read())")
    side = run(fio, ["--name=x"], seconds=0.3)
    assert side.tool == "fio"
    assert side.iops == pytest.approx(parse(recorded("psync.json")).ios / parse(recorded("psync.json")).seconds)
    assert side.observed is None  # over at once: nothing was sampled


def test_the_arguments_and_the_environment_arrive(program, tmp_path):
    fio = program(
        "seen = sys.argv[1:], os.environ['GLIBC_TUNABLES'], os.getcwd()\n"
        f"open({str(tmp_path / 'seen')!r}, 'w').write(repr(seen))\n"
        f"sys.stdout.write(open({str(DATA / 'psync.json')!r}).read())"
    )
    run(fio, ["--name=x"], seconds=0.3, environment={"GLIBC_TUNABLES": "a=1"})
    arguments, tunables, folder = eval((tmp_path / "seen").read_text())
    assert arguments == ["--name=x", "--output-format=json", "--eta=never"]
    assert tunables == "a=1"
    assert folder != str(Path.cwd())  # state files of an interrupted fio would lie there
    assert not Path(folder).exists()


def test_a_status_is_an_error_with_fios_words(program):
    with pytest.raises(FioError, match="ended with status 3: fio: this cannot be"):
        run(program("sys.stderr.write('fio: this cannot be\\n'); sys.exit(3)"), [], seconds=0.1)
    with pytest.raises(FioError, match=r"ended with status 3: fio printed no JSON"):
        run(program("sys.exit(3)"), [], seconds=0.1)


def test_a_real_failure_names_the_reason(program):
    text, said = str(DATA / "failing_hipri.txt"), str(DATA / "failing_hipri.err")
    fio = program(f"sys.stdout.write(open({text!r}).read())\nsys.stderr.write(open({said!r}).read())\nsys.exit(1)")
    with pytest.raises(FioError, match="Operation not supported"):
        run(fio, [], seconds=0.1)


def test_short_requests_void_the_run(program):
    told = json.loads(recorded("psync.json"))
    told["jobs"][0]["read"]["short_ios"] = 7
    fio = program(f"sys.stdout.write({json.dumps(told)!r})")
    with pytest.raises(FioError, match="counted 7 short requests"):
        run(fio, [], seconds=0.1)


def test_a_late_fio_is_killed_with_its_children(program, tmp_path, monkeypatch):
    monkeypatch.setattr(fio_module, "_SLACK_S", 1.0)
    fio = program(
        "pid = os.fork()\n"
        f"open({str(tmp_path)!r} + '/' + ('child' if pid == 0 else 'parent'), 'w').write(str(os.getpid()))\n"
        "time.sleep(600)"
    )
    with pytest.raises(FioError, match="was not done within 1 s and was killed"):
        run(fio, [], seconds=0.0)
    for name in ("child", "parent"):
        pid = int((tmp_path / name).read_text())
        until = time.monotonic() + 10
        while time.monotonic() < until and Path(f"/proc/{pid}").exists() and not is_zombie(pid):
            time.sleep(0.01)
        assert not Path(f"/proc/{pid}").exists() or is_zombie(pid)


def is_zombie(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_what_is_no_program(tmp_path):
    path = tmp_path / "fio"
    path.write_text("not a program")
    path.chmod(0o755)
    with pytest.raises(FioError, match="cannot be started: ENOEXEC"):
        run(Fio(str(path), (3, 33), "fio-3.33"), [], seconds=0.1)
