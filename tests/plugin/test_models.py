"""Models through pytest: selected, parametrized, measured for real, recorded, shown; their bytes as strace saw them."""

from __future__ import annotations

import collections
import re
import shutil
import subprocess
import sys

import pytest

CONFTEST = """
import numpy as np

from pytest_gpuio.phases import Parameter, RecordModel
from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.records import FSYNC, WRITE, Records


def fetch(values):
    n = values["requests"]
    rng = np.random.default_rng(values["seed"])
    size = int(values["scale"] * (16 << 20))
    files = Files.of({"a.bin": size, "deep/b.bin": size})
    gap = values["gap_us"] * 1000
    groups = -(-n // 8)
    return Records.build(
        files,
        offset=rng.integers(0, size - 9000, n),
        length=rng.integers(1, 9000, n),
        file=rng.integers(0, 2, n),
        group=np.arange(n) // 8,
        time_ns=np.arange(groups) * gap if gap else -1,
    )


def save(values):
    ranks = values["ranks"]
    files = Files.of({f"rank{rank}.pt": 32 << 20 for rank in range(ranks)})
    rank = np.repeat(np.arange(ranks), 5)
    return Records.build(
        files,
        offset=np.tile([0, 8 << 20, 16 << 20, 24 << 20, 0], ranks),
        length=np.tile([8 << 20] * 4 + [0], ranks),
        op=np.tile([WRITE] * 4 + [FSYNC], ranks),
        file=rank,
        group=rank,
        rank=np.arange(ranks),
    )


def train(values):
    steps = 8
    return Records.build(
        Files.of({"data": 8 << 20}),
        offset=np.arange(steps * 2) % 8 << 20,
        length=1 << 20,
        group=np.arange(steps * 2) // 2,
        chain=np.zeros(steps, int),
        prefetch=2,
        compute_ns=int(values["compute_ms"] * 1e6),
    )


def pytest_gpuio_register_workloads(config):
    return [
        RecordModel(
            "inference/my_fetch", "Fetch.", "a test", fetch, "completion",
            (Parameter("requests", 2000, "records"), Parameter("gap_us", 0, "microseconds")), bs=16384, qd=8,
        ),
        RecordModel(
            "pretrain/my_save", "Save.", "a test", save, "durable", (Parameter("ranks", 2, "ranks"),),
            writes=True, durability="fsync", qd=4,
        ),
        RecordModel(
            "pretrain/my_train", "Train.", "a test", train, "utilization",
            (Parameter("compute_ms", 10.0, "milliseconds"),), qd=4, note="not an MLPerf submission",
        ),
    ]
"""

SUITE = """
import pytest


@pytest.mark.workload({names})
def test_model(gpuio):
    gpuio.run()
"""


@pytest.fixture
def target(target):
    yield target
    shutil.rmtree(target / "models", ignore_errors=True)


@pytest.fixture
def run(pytester, gpuio_run):
    pytester.makeconftest(CONFTEST)

    def run(names, *arguments):
        return gpuio_run(*arguments, suite=SUITE.format(names=names))

    return run


def cells(results):
    return {record["axes"]["workload"]: record for record in results()["cells"]}


def test_models_are_measured_and_what_decides_is_shown_first(run, results) -> None:
    names = (
        '"inference/my_fetch", "inference/my_fetch[requests=400,gap_us=1000]", "pretrain/my_save", "pretrain/my_train"'
    )
    # A third of it must hold all of a schedule.
    outcome = run(names, "--gpuio-datapath=io_uring", "--gpuio-max-time=0.2")
    outcome.assert_outcomes(passed=4)
    found = cells(results)
    closed, timed = found["inference/my_fetch"], found["inference/my_fetch[requests=400,gap_us=1000]"]
    assert closed["replay"]["records"] == closed["windows"]["ios_per_window"] == 2000
    assert closed["replay"]["amplification"] > 1
    assert closed["bytes"] == closed["replay"]["moved_bytes"] * closed["windows"]["count"]
    assert closed["verify"]["checked"] > 0
    assert timed["replay"]["timed"]
    # 50 groups, a millisecond apart.
    assert min(timed["windows"]["seconds"]) >= 0.049
    save = found["pretrain/my_save"]
    assert save["durability"]["syncs"] == 2 * save["windows"]["count"]
    # Four times 8 MiB a rank, in requests of 1 MiB.
    assert save["writes"] == 64 * save["windows"]["count"]
    assert (save["replay"]["ranks"]["count"], save["replay"]["ranks"]["processes"]) == (2, 2)
    assert save["replay"]["ranks"]["max_rank_s"] <= max(save["windows"]["seconds"])
    # The second rank's process is part of the account.
    assert len(save["cpu"]["daemons"]) == 1
    assert save["cpu"]["daemons"][0]["seconds"] > 0
    train = found["pretrain/my_train"]
    assert 0 < train["replay"]["stall"]["utilization"] <= 1
    # Eight steps of 10 ms cannot take less.
    assert min(train["windows"]["seconds"]) >= 0.05
    text = outcome.stdout.str()
    assert re.search(r"my_train io_uring +utilisation \d+\.\d%", text)
    assert "not an MLPerf submission: pretrain/my_train\n" in text
    assert re.search(r"my_save\S* .* durable in ", text)
    assert text.index("utilisation") < text.index("p99.9")


def test_options_reach_the_models_that_have_them(run, results) -> None:
    outcome = run(
        '"inference/my_fetch", "pretrain/my_save[ranks=3]"',
        "--gpuio-datapath=psync",
        "--gpuio-scale=0.5",
        "--gpuio-workload-param=requests=500,ranks=4",
    )
    outcome.assert_outcomes(passed=2)
    assert set(cells(results)) == {
        "inference/my_fetch[requests=500,scale=0.5]",
        # The mark's own value stands.
        "pretrain/my_save[ranks=3,scale=0.5]",
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--gpuio-workload-param=nonsense=4",), "no workload has a parameter nonsense"),
        (("--gpuio-workload-param=requests",), "'requests' is no parameter"),
        (("--gpuio-scale=big",), "'big' is not a number"),
        (("--gpuio-scale=0",), "scale=0 is outside"),
    ],
)
def test_wrong_options_are_refused_before_any_io(run, options, words, target) -> None:
    outcome = run('"inference/my_fetch"', "--gpuio-datapath=psync", *options)
    assert outcome.ret != 0
    assert words in outcome.stdout.str() + outcome.stderr.str()
    assert not (target / "models").exists()


def test_paths_that_cannot_replay_are_skipped_with_the_reason(run) -> None:
    outcome = run('"inference/my_fetch"', "--gpuio-datapath=mmap,null", "-rs")
    outcome.assert_outcomes(passed=2)


def test_a_smoke_run_touches_each_model(run) -> None:
    outcome = run('"inference/my_fetch", "pretrain/my_save"', "--gpuio-datapath=psync", "--benchmark-disable")
    outcome.assert_outcomes(passed=2)


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace: apt-get install strace")
def test_strace_sees_the_models_own_requests(pytester, target) -> None:
    """Every pread that reaches the kernel is one of the records, rounded up, and each comes once a window."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_suite=SUITE.format(names='"inference/my_fetch[requests=300]"'))
    command = [
        "strace", "-f", "-y", "-e", "trace=pread64", "-o", str(pytester.path / "calls"),
        sys.executable, "-P", "-m", "pytest", f"--gpuio-target={target}",
        "--gpuio-datapath=psync", "--gpuio-max-time=50ms", "-p", "no:cacheprovider", "-q",
        "-p", "no:hypothesispytest",
    ]  # fmt: skip
    outcome = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, timeout=120)
    assert outcome.returncode == 0, outcome.stdout
    call = re.compile(r"pread64\(\d+<(\S+models\S+)>, .*?, (\d+), (\d+)\)\s+= (\d+)")
    calls = collections.Counter()
    for line in (pytester.path / "calls").read_text(errors="replace").splitlines():
        match = call.search(line)
        if match and int(match[3]) >= 2 << 20:
            assert match[2] == match[4]
            calls[match[1].rpartition("/")[2], int(match[3]) - (2 << 20), int(match[2])] += 1
    import numpy as np

    # The same draws as the conftest's, rounded by hand.
    rng, size = np.random.default_rng(1), 16 << 20
    offset, length = rng.integers(0, size - 9000, 300), rng.integers(1, 9000, 300)
    file = rng.integers(0, 2, 300)
    unit = min(bytes_ for _, at, bytes_ in calls)
    wanted = collections.Counter(
        (("a.bin", "b.bin")[f], int(o // unit * unit), int(-(-(o + n) // unit) * unit - o // unit * unit))
        for o, n, f in zip(offset.tolist(), length.tolist(), file.tolist(), strict=True)
    )
    assert set(calls) == set(wanted)
    passes = {calls[key] / wanted[key] for key in wanted}
    assert len(passes) == 1
    assert passes.pop() >= 3
