import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.sweep import plan
from pytest_gpuio.sweep.plan_text import condition_of, numbers_of


def test_a_plan_says_what_it_means():
    made = plan.parse(
        """
name = "mine"
seed = 7
[axes]
bs = ["4k", "16k..64k"]
qd = "1..16*4"
jobs = "1..5+2"
datapath = ["psync", "io_uring"]
environment = ["default", "few"]
[environments.few]
variables = {KVIKIO_NTHREADS = "1"}
before = "true"
[windows]
length = "20ms"
count = 3
warm_up = "10ms"
[options]
size = "64M"
strict-not-here = "x"
""".replace('strict-not-here = "x"\n', ""),
        "mine.toml",
    )
    assert made.axes["bs"] == (4096, 16384, 32768, 65536)
    assert made.axes["qd"] == (1, 4, 16)
    assert made.axes["jobs"] == (1, 3, 5)
    assert made.environments["few"].variables == {"KVIKIO_NTHREADS": "1"}
    assert made.environments["few"].before == "true"
    assert made.windows == plan.Windows(0.02, 3, 0.01)
    assert made.options == {"size": "64M"}
    assert (made.seed, made.block, made.retries) == (7, 200, {"void": 1, "failure": 1})


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ('name = "x"\n\n[axis]\nbs = "4k"\n', 3, "unknown key 'axis'"),
        ('[axes]\nbs = [\n "4k",\n]\ndepth = 1\n', 5, "unknown key 'depth'.*qd"),
        ('[axes]\nqd = "64..1"\n', 2, "'64..1' is impossible: 64 is above 1"),
        ('[axes]\nqd = 1\nbs = "4k..100k"\n', 3, "ends at 64k and misses 100k"),
        ('[axes]\nqd = "1..8*1"\n', 2, "a factor of 1 never gets"),
        ('[axes]\nqd = "1..1000000"\nbs = "512..1G+512"\n', 2, "misses 1000000"),
        ('[axes]\nbs = "512..1G+512"\n', 2, "more than 1,000 values"),
        ('[axes]\nqd = "1..x"\n', 2, "not a whole number"),
        ('[axes]\nqd = "1.."\n', 2, "is no range"),
        ("[axes]\nqd = 0\n", 2, "above zero"),
        ("[axes]\nqd = true\n", 2, "no number"),
        ("[axes]\nqd = []\n", 2, "has no value"),
        ('[axes]\n# note\ndatapath = ["psink"]\n', 3, "did you mean psync"),
        ('[axes]\nworkload = ["micro/randred"]\n', 2, "Did you mean micro/randread"),
        ('[axes]\ntarget = ["No"]\n', 2, "lower-case"),
        ('[axes]\ncache = ["warm"]\n', 2, "none of direct, cold, hot"),
        ('[axes]\nenvironment = ["few"]\n', 2, "none of default"),
        ('[axes]\nbatch = ["1y1"]\n', 2, "not a batch"),
        ('[axes]\narrivals = ["now"]\n', 2, "now"),
        ("[axes]\ndatapath = []\n", 2, "list of names"),
        ('seed = "x"\n', 1, "whole number"),
        ('[windows]\nlength = "20"\ncount = 0\n', 3, "at least 1"),
        ("[windows]\nlength = 20\n", 2, "'20ms'"),
        ('[windows]\nlength = "-1s"\n', 2, "not a duration"),
        ('[options]\nsize = "64M"\nprecission = "2%"\n', 3, "unknown key 'precission'"),
        ("[options]\nsize = 64\n", 2, "must be a text, as --gpuio-size"),
        ('[options]\nstrict = "yes"\n', 2, "true or false"),
        ('[options]\nverify = "some"\n', 2, "none of none, sweep, full"),
        ('[[exclude]]\nbs = "4k"\n[[exclude]]\ndepht = 1\n', 4, "unknown key 'depht'"),
        ('[[exclude]]\nbs = ">x"\n', 2, "not a size"),
        ('[[exclude]]\nbs = "8k..4k"\n', 2, "8k is above 4k"),
        ("[[exclude]]\n", 1, "names no axis"),
        ("exclude = 1\n", 1, r"\[\[exclude\]\]"),
        ('[[constraint]]\nwhen = {datapath = "psync"}\nthen = {jobs = "<0"}\n', 3, "above zero"),
        ("[limits]\nin_flight = 0\n", 2, "above zero"),
        ('[targets]\nfast = "nvme"\n', 2, "medium 'nvme' is none of"),
        ('[environments.a]\nvariables = {A = 1}\n', 2, "texts"),
        ("[environments.default]\n", 1, "and not 'default'"),
        ("[environments.a]\nbefore = 1\n", 2, "shell command"),
        ('[baseline]\ndatapath = "psynk"\n', 2, "psync"),
        ("[baseline]\nevery = 0\n", 2, "above zero"),
        ('[precondition]\nworkload = "micro/randread"\n', 2, "no generated stream that writes"),
        ("[cool_down]\nabove = 50\nbelow = 60\n", 1, "must lie under"),
        ('[cool_down]\nabove = "hot"\n', 2, "degrees"),
        ("[retry]\nvoid = -1\n", 2, "at least 0"),
        ("name = 1\n", 1, "must be a text"),
        ("axes = 1\n", 1, "must be a table"),
        ("[axes]\nqd = [1,\n", 3, "not TOML"),
        ('[axes]\nqd = 1\nqd = 2\n', 3, "not TOML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(text, line, what):
    with pytest.raises(ConfigError, match=rf"^p\.toml:{line}(:\d+)?: .*{what}"):
        plan.parse(text, "p.toml")


@pytest.mark.parametrize("name", plan.BUNDLED)
def test_bundled_plans_are_read(name):
    made = plan.load(name)
    assert made.name == name
    assert made.title


def test_a_plan_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"did you mean hour.*bundled plans are study, hour, smoke"):
        plan.load("huor")
    with pytest.raises(ConfigError, match="No such file"):
        plan.load(tmp_path / "no.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(ConfigError, match="not UTF-8"):
        plan.load(tmp_path / "latin.toml")


@given(low=st.integers(1, 1000), step=st.integers(1, 50), count=st.integers(1, 40))
def test_ranges_with_steps_hold_both_ends(low, step, count):
    high = low + step * (count - 1)
    assert numbers_of(f"{low}..{high}+{step}", size=False, what="qd") == tuple(range(low, high + 1, step))


@given(low=st.integers(1, 1000), factor=st.integers(2, 5), power=st.integers(0, 8))
def test_ranges_with_factors_hold_both_ends(low, factor, power):
    high = low * factor**power
    assert numbers_of(f"{low} .. {high} * {factor}", size=True, what="bs") == tuple(
        low * factor**i for i in range(power + 1)
    )


@given(st.text(max_size=12))
def test_no_text_is_more_than_refused(text):
    for size in (True, False):
        with contextlib.suppress(ConfigError):
            numbers_of(text, size=size, what="x")
    for kind in ("size", "count"):
        with contextlib.suppress(ConfigError):
            condition_of(text, kind=kind, what="x")(5)


@pytest.mark.parametrize(
    ("values", "kind", "yes", "no"),
    [
        ("<8", "count", [1, 7], [8, 9]),
        ("<= 8", "count", [8], [9]),
        (">64k", "size", [65537], [65536]),
        (">=64k", "size", [65536], [65535]),
        ("4k..64k", "size", [4096, 5000, 65536], [4095, 65537]),
        ([1, "4..8", ">100"], "count", [1, 4, 6, 8, 101], [2, 9, 100]),
        ("io_*", "name", ["io_uring"], ["libaio"]),
        (["a", "b?"], "name", ["a", "bc"], ["b", "ab"]),
    ],
)
def test_conditions(values, kind, yes, no):
    test = condition_of(values, kind=kind, what="x")
    assert all(test(value) for value in yes)
    assert not any(test(value) for value in no)
