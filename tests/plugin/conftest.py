"""Suites and targets that plugin tests share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from zygote import Zygote

from pytest_gpuio.targets import refuses_direct

READ = """
import pytest


@pytest.mark.workload("inference/random_read_4k")
def test_read(gpuio):
    gpuio.run()
"""


@pytest.fixture
def target(tmp_path_factory) -> Path:
    """A folder whose file system takes O_DIRECT; its files are removed at once, they are large."""
    folder = tmp_path_factory.mktemp("target")
    reason = refuses_direct(folder)
    if reason is not None:
        pytest.skip(reason)
    yield folder
    for file in folder.glob("*"):
        file.unlink()


@pytest.fixture(scope="session")
def zygote():
    """Starts the runs."""
    process = Zygote()
    yield process
    process.close()


@pytest.fixture
def gpuio_run(pytester, target, zygote) -> Callable[..., pytest.RunResult]:
    """Run a suite for real, small and short: ``gpuio_run(*options, suite=READ)``."""

    def run(*arguments: str, suite: str = READ, target: Path = target) -> pytest.RunResult:
        pytester.makepyfile(test_suite=suite)
        small = ("--gpuio-size=32M", "--gpuio-max-time=100ms", "--gpuio-window=30ms")
        small += ("-p", "no:codspeed", "-p", "no:cacheprovider")
        # Loading hypothesis takes longer than most of these runs.
        small += ("-p", "no:hypothesispytest", f"--gpuio-target={target}", *arguments)
        if "-n" in arguments:
            return pytester.runpytest_subprocess(*small, timeout=120)
        # What is imported already cannot have its asserts rewritten.
        return zygote.run(["-p", "no:xdist", "--assert=plain", f"--basetemp={pytester.path}/runpytest-0", *small], 120)

    return run


@pytest.fixture
def results(pytester) -> Callable[..., Any]:
    """Read a JSON file that the run wrote into its folder; NaN is refused."""

    def refuse(word: str) -> float:
        raise AssertionError(f"{word} in JSON")

    def read(name: str = "gpuio-results.json") -> Any:
        return json.loads((pytester.path / name).read_text(), parse_constant=refuse)

    return read
