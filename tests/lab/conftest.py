"""Fixtures of the lab's suites: one kernel, and a function that runs a job of ``jobs/`` in a machine."""

import contextlib
import os
from pathlib import Path

import pytest
from vmlab import LabBroken, LabUnavailable, fetch_kernel, run_job
from vmlab.kernel import SOURCES

JOBS = Path(__file__).parent / "jobs"
#: Text that is printed after the tests: heading -> lines.
TABLES = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser):
    parser.addoption("--lab-kernel", choices=SOURCES, help="where the lab's kernel comes from (default: the newest)")


def pytest_configure(config):
    config.stash[TABLES] = {}


def pytest_terminal_summary(terminalreporter, config):
    for heading, text in config.stash[TABLES].items():
        terminalreporter.section(heading)
        terminalreporter.write_line(text)


@pytest.fixture(scope="session")
def tables(pytestconfig):
    """Heading -> text to print at the end."""
    return pytestconfig.stash[TABLES]


@pytest.fixture(scope="session")
def kernel(pytestconfig):
    """The kernel that every machine of this run boots."""
    try:
        return fetch_kernel(pytestconfig.getoption("--lab-kernel"))
    except LabUnavailable as error:
        pytest.skip(f"no lab here: {error}")


@pytest.fixture(scope="session")
def boot(kernel, tmp_path_factory, pytestconfig):
    """Function: runs ``jobs/NAME.py`` in a machine with devices; returns the outcome."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(text):
        # A boot takes minutes: whoever watches sees that it goes on.
        if os.environ.get("CI") or pytestconfig.get_verbosity() > 0:
            with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
                print(text, end="", flush=True)

    def start(name, *devices, expected=0, **more):
        share = tmp_path_factory.mktemp(name)
        job = f'cd /tmp\nPYTHONPATH={JOBS} exec "$PYTHON" {JOBS}/{name}.py\n'
        try:
            outcome = run_job(kernel, job, share, devices=devices, said=say, **more)
        except LabBroken as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        assert outcome.status == expected, outcome.log[-4000:]
        return outcome

    return start
