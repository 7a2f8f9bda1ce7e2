"""The documented steps of "Try it": a delay of 10 % in one cell is found, an unchanged repeat is not."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs/regression-gates.md").read_text(encoding="utf-8")
STEPS = PAGE.partition("## Try it")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", STEPS, re.MULTILINE | re.DOTALL)
BUILD, REPEAT, DELAY, AB = [body for language, body in BLOCKS if language == "sh"]
#: The two commands as shell functions: this interpreter's, and statuses are kept.
COMMANDS = f"""
pytest() {{ {sys.executable} -P -m pytest "$@"; }}
gpuio() {{ {sys.executable} -P -m pytest_gpuio.cli "$@"; echo $? >> statuses; }}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder as after the first steps: the engine built, data path and suite written."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler to build the engine with")
    checkout = tmp_path_factory.mktemp("delay")
    for part in ("cnative", "tests"):
        (checkout / part).symlink_to(CHECKOUT / part)
    run(checkout, BUILD)
    for language, body in BLOCKS:
        if language == "python":
            (checkout / "try" / body.partition("\n")[0].removeprefix("# ")).write_text(body)
    return checkout / "try"


def run(folder, script):
    """What the steps said, and the exit status of each ``gpuio`` in them."""
    environment = {
        "GPUIO_ENGINE_PATH": str(folder.parent / "steady.so"), "COLUMNS": "200",
        # Short windows, and without what takes longer to load than a run takes.
        "PYTEST_ADDOPTS": "--gpuio-size=32M --gpuio-window=30ms "
        "-p no:codspeed -p no:hypothesispytest -p no:xdist -p no:cacheprovider",
    }  # fmt: skip
    done = subprocess.run(
        ["sh", "-u", "-c", COMMANDS + script], cwd=folder, env={**os.environ, **environment}, timeout=600,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    statuses = folder / "statuses"
    found = [int(line) for line in statuses.read_text().split()] if statuses.exists() else []
    statuses.unlink(missing_ok=True)
    return found, said


def test_a_delay_is_found_and_an_unchanged_repeat_is_not(folder):
    statuses, said = run(folder, REPEAT + DELAY)
    assert statuses == [0, 3, 1], said
    (case,) = (folder / "cases.txt").read_text().splitlines()
    assert "|bs=64k|" in case
    verdicts = re.findall(r"^(?:SLOWER|FASTER) .*$", said, re.MULTILINE)
    assert len(verdicts) == 1, said
    assert re.match(r"SLOWER +micro/randread steady \S+ 64k qd1 +bytes_per_s +-(8|9|10)\.\d%", verdicts[0])


def test_ab_finds_it_in_turns(folder):
    statuses, said = run(folder, AB.replace("gpuio ab", "gpuio ab --out=ab --json=ab.json"))
    assert statuses == [1], said
    found = {finding["axes"]["bs"]: finding for finding in json.loads((folder / "ab.json").read_text())["findings"]}
    assert found[65536]["verdict"] == "SLOWER"
    assert found[65536]["decision"]["change"] == pytest.approx(1 / 1.1 - 1, abs=0.02)
    assert found[4096]["verdict"] in ("SAME", "AMBIGUOUS")
    assert found[4096]["candidate"] is None
