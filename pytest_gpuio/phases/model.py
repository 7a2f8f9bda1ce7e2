"""The record model: a workload that is an array of I/O records computed from parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.parameter import SCALE, SEED, Parameter, Value, check_names, spell
from pytest_gpuio.phases.workload import check_identity

if TYPE_CHECKING:
    from pytest_gpuio.phases.objects import Objects
    from pytest_gpuio.phases.records import Records

#: What decides how good a data path is for a workload; the summary shows it first.
Deciding = Literal["utilization", "durable", "resident", "completion", "stall", "throughput"]
#: From values by name, ``scale`` and ``seed`` among them, to records; pure: the same values give the same records.
Builder = Callable[[Mapping[str, Value]], "Records"]


@dataclass(frozen=True, slots=True)
class RecordModel:
    """A workload that issues given records, instead of a stream that the engine generates.

    Attributes:
        name: ``phase/name``. title: one sentence for people. source: where the numbers come from.
        build: makes the records.
        deciding: ``utilization`` (of the emulated accelerator, and GB/s per core), ``durable`` (seconds until the
            slowest rank's bytes are on the medium), ``resident`` (seconds until all is loaded), ``completion`` (p99 of
            groups, and the share of them in their time limits), ``stall`` (seconds that steps lose to each save in the
            background) or ``throughput`` (bytes per second).
        parameters: beside ``scale`` and ``seed``, which every model has.
        scale: default factor on bytes of files and amount of work, never on request sizes; 1 is the real thing.
        bs: largest request in bytes: longer records are sent in pieces of it. qd: requests in flight per job.
        jobs: worker threads per rank. writes: some records write.
        durability: ``fsync`` when the records hold fsyncs, else ``none``; a word in ids.
        concurrency: chains at work at the same time in a closed loop; 0 = all.
        by_name: chosen by its whole name only, never by a pattern: it needs a file of the user's.
        note: shown with every result: ``not an MLPerf submission``.
        objects: what an application would save or load instead; None = a framework has no part in it.
        chosen: parameters that differ from their defaults, in the order of ``parameters``.

    Raises:
        ConfigError: a value that no cell could be made of.
    """

    name: str
    title: str
    source: str
    build: Builder
    deciding: Deciding
    parameters: tuple[Parameter, ...] = ()
    scale: float = 1.0
    bs: int = 1 << 20
    qd: int = 32
    jobs: int = 1
    writes: bool = False
    durability: Literal["none", "fsync"] = "none"
    concurrency: int = 0
    by_name: bool = False
    objects: Callable[[Mapping[str, Value]], Objects] | None = None
    note: str = ""
    chosen: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        check_identity(self.name, self.title, self.source, self.bs, self.qd, self.jobs)
        if self.deciding not in get_args(Deciding):
            raise ConfigError(f"workload {self.name!r}: {self.deciding!r} is none of {', '.join(get_args(Deciding))}.")
        if self.concurrency < 0:
            raise ConfigError(f"workload {self.name!r}: {self.concurrency} chains at a time: use 0 (all) or more.")
        names = [parameter.name for parameter in self.all_parameters]
        if len(set(names)) < len(names):
            raise ConfigError(f"workload {self.name!r} has two parameters of one name: {', '.join(names)}.")

    @property
    def all_parameters(self) -> tuple[Parameter, ...]:
        """Those of the model, then ``scale`` and ``seed``."""
        return (*self.parameters, replace(SCALE, default=float(self.scale)), SEED)

    def with_values(self, given: Mapping[str, str | Value]) -> RecordModel:
        """The model with other parameters, given as values or as they are spelled.

        Raises:
            ConfigError: a name it does not have, or a value out of range.
        """
        parameters = self.all_parameters
        check_names(parameters, given, f"workload {self.name}")
        values = dict(self.chosen)
        for parameter in parameters:
            if parameter.name in given:
                value = given[parameter.name]
                spelled = isinstance(value, str)
                values[parameter.name] = parameter.parse(str(value)) if spelled else parameter.check(value)
        chosen = tuple(
            (parameter.name, values[parameter.name])
            for parameter in parameters
            if parameter.name in values and values[parameter.name] != parameter.default
        )
        return replace(self, chosen=chosen)

    @property
    def values(self) -> dict[str, Value]:
        """Every parameter's value."""
        return {parameter.name: parameter.default for parameter in self.all_parameters} | dict(self.chosen)

    def records(self) -> Records:
        """What the model issues.

        Raises:
            ConfigError: the parameters do not go together.
        """
        return self.build(self.values)

    @property
    def phase(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    @property
    def spelling(self) -> str:
        """Name and chosen parameters, as marks, options and case keys have them: ``phase/name[ranks=8]``."""
        if not self.chosen:
            return self.name
        return f"{self.name}[{','.join(f'{name}={spell(value)}' for name, value in self.chosen)}]"

    @property
    def needs_write_file(self) -> bool:
        """Whether it runs on files whose content may change."""
        return self.writes
