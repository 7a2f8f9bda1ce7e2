"""Hooks through which others add data paths and workloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_gpuio.datapaths import DataPath
    from pytest_gpuio.phases import AnyWorkload


@pytest.hookspec
def pytest_gpuio_register_datapaths(config: pytest.Config) -> Sequence[DataPath] | None:
    """Data paths to add to the axis, for a plugin or the root ``conftest.py``.

    A path that brings its own engine names the shared object in the environment variable ``GPUIO_ENGINE_PATH``; see
    ``docs/reference.md``.
    """


@pytest.hookspec
def pytest_gpuio_register_workloads(config: pytest.Config) -> Sequence[AnyWorkload] | None:
    """Workloads to add, for a plugin or the root ``conftest.py``; named ``phase/name``."""
