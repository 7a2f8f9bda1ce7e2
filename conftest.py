"""Re-exports the two hooks that ``pytest-benchmark compare`` looks for in the folder it is started in."""

import pytest

from pytest_gpuio.report import compare_hooks

# Optional, because pytest refuses hooks of a plugin that is switched off (-p no:benchmark).
pytest_benchmark_group_stats = pytest.hookimpl(optionalhook=True)(compare_hooks.pytest_benchmark_group_stats)
pytest_benchmark_scale_unit = pytest.hookimpl(optionalhook=True)(compare_hooks.pytest_benchmark_scale_unit)
