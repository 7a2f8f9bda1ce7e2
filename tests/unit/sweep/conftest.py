"""Plans placed on targets that are only named: nothing is measured."""

from pathlib import Path

import pytest

from pytest_gpuio.measure import settings
from pytest_gpuio.sweep import expand, plan


@pytest.fixture(scope="session")
def placed():
    """Function: a plan's text on targets, ``name=medium``, with options of the command line."""

    def make(text, targets=None, **options):
        made = plan.parse(text, "p.toml")
        given = {"default": "virtual"} if targets is None else targets
        asked = settings.read(lambda name: options.get(name.replace("-", "_"), made.options.get(name)), Path("/tmp"))
        return expand.place(made, asked, {name: Path("/tmp", name) for name in given}, given)

    return make
