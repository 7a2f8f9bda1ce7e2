"""How a function with named arguments becomes the builder of a record model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pytest_gpuio.phases.parameter import Parameter, Value

if TYPE_CHECKING:
    from pytest_gpuio.phases.model import Builder
    from pytest_gpuio.phases.objects import Objects
    from pytest_gpuio.phases.records import Records

#: Value of the parameter ``file`` while nobody has named one.
NO_FILE: Final = "none"


def by_name(function: Callable[..., Records]) -> Builder:
    """A builder that hands each parameter over by its name."""

    def build(values: Mapping[str, Value]) -> Records:
        return function(**values)

    build.__doc__ = function.__doc__
    return build


def objects_by_name(function: Callable[..., Objects]) -> Callable[[Mapping[str, Value]], Objects]:
    """The same for what an application would save or load."""

    def build(values: Mapping[str, Value]) -> Objects:
        return function(**values)

    build.__doc__ = function.__doc__
    return build


def model_parameter(default: str) -> Parameter:
    """The parameter that names a language model."""
    return Parameter("model", default, "name of a model (gpuio model list), or FILE.toml:NAME")


def compute_parameter(default: float, what: str) -> Parameter:
    """The parameter of emulated compute, in milliseconds."""
    return Parameter("compute_ms", default, f"emulated compute of {what}, in ms", least=-1.0, most=600_000.0)
