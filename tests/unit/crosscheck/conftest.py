"""The real fio, or a reason why its tests are skipped."""

import pytest

from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.crosscheck.fio import find_fio


@pytest.fixture
def real_fio():
    try:
        return find_fio()
    except CapabilityMissing as error:
        pytest.skip(str(error))


@pytest.fixture
def said():
    """Progress lines, and the function that takes them."""
    lines = []

    def say(line):
        lines.append(line)

    say.lines = lines
    return say
