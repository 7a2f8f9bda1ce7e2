"""Frameworks that applications save and load with, as references beside the raw data paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pytest_gpuio.measure.frameworks.framework import Framework


def _torch_save() -> Framework:
    from pytest_gpuio.measure.frameworks.torch_save import TorchSave

    return TorchSave()


def _torch_dcp() -> Framework:
    from pytest_gpuio.measure.frameworks.torch_dcp import TorchDcp

    return TorchDcp()


def _safetensors() -> Framework:
    from pytest_gpuio.measure.frameworks.safetensors import Safetensors

    return Safetensors()


#: How each one is opened, by the name that stands where paths of the compiled engine have an engine's. Nothing of them
#: is imported before.
FRAMEWORKS: Final[Mapping[str, Callable[[], Framework]]] = MappingProxyType(
    {"torch_save": _torch_save, "torch_dcp": _torch_dcp, "safetensors": _safetensors}
)
