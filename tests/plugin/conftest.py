"""Suites and targets that plugin tests share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture
def gpuio_run(pytester, target) -> Callable[..., pytest.RunResult]:
    """Run a suite for real, small and short: ``gpuio_run(*options, suite=READ)``."""

    def run(*arguments: str, suite: str = READ, target: Path = target) -> pytest.RunResult:
        pytester.makepyfile(test_suite=suite)
        small = ("--gpuio-size=32M", "--gpuio-max-time=100ms", "--gpuio-window=30ms")
        small += ("-p", "no:codspeed", "-p", "no:cacheprovider")
        # Loading hypothesis takes longer than most of these runs.
        small += ("-p", "no:hypothesispytest", *(() if "-n" in arguments else ("-p", "no:xdist")))
        return pytester.runpytest_subprocess(f"--gpuio-target={target}", *small, *arguments, timeout=120)

    return run


@pytest.fixture
def results(pytester) -> Callable[..., Any]:
    """Read a JSON file that the run wrote into its folder; NaN is refused."""

    def refuse(word: str) -> float:
        raise AssertionError(f"{word} in JSON")

    def read(name: str = "gpuio-results.json") -> Any:
        return json.loads((pytester.path / name).read_text(), parse_constant=refuse)

    return read
