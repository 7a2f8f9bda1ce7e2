"""The options of one run, parsed once into frozen values."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from pytest_gpuio.core.cell import DESTINATIONS, Cache, Destination
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import format_size, parse_duration, parse_percent, parse_size
from pytest_gpuio.core.spdk_address import PREFIX, spdk_address
from pytest_gpuio.measure.options import OPTIONS
from pytest_gpuio.phases.arrivals import Arrivals
from pytest_gpuio.phases.parameter import SCALE, parse_pairs

#: Engine settings that are on or off.
KNOBS: Final = ("fixed_buffers", "registered_files", "single_issuer", "merged_wait")
_SHORTEST_WINDOW_S: Final = 0.005
_TARGET_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked for; None = the workload's or profile's own.

    Attributes:
        targets: (name, absolute path) pairs; the name is ``default`` when the user gave none.
        bs: bytes. size: bytes. precision: fraction. max_time, window, timeout, lock_timeout: seconds.
        parameters: of workloads that are models, by name, as they are spelled; ``scale`` among them.
        destination: memory asked for, None = the data path's own. gpus: counts. gpu: ordinals, empty = all;
            or ``near`` or ``far``.
        batch: (submit, reap) pairs. allow_destroy: raw devices that may be overwritten. force: whatever they carry.
        numa: ``near``, ``any`` or the number of a NUMA node.
        gate, gate_new: runs to judge this one with. gate_policy: rules of the gate.
        clean: remove files of models at the end.
    """

    targets: tuple[tuple[str, Path], ...]
    datapath: tuple[str, ...] | None
    workload: tuple[str, ...] | None
    parameters: Mapping[str, str]
    cases: frozenset[str] | None
    bs: tuple[int, ...] | None
    qd: tuple[int, ...] | None
    jobs: tuple[int, ...] | None
    batch: tuple[tuple[int, int], ...]
    size: int | None
    precision: float | None
    max_time: float | None
    window: float | None
    profile: str
    seed: int
    require: frozenset[str]
    cache: Cache | None
    arrivals: tuple[Arrivals, ...]
    wait: Literal["sleep", "spin"]
    knobs: Mapping[str, bool]
    sq_idle_ms: int
    destination: tuple[Destination, ...] | None
    gpus: tuple[int, ...]
    gpu: tuple[int, ...] | str
    copies: Mapping[str, Any]
    daemons: tuple[int, ...]
    allow_destroy: tuple[str, ...]
    force: bool
    numa: str
    verify: Literal["none", "sweep", "full"]
    strict: bool
    timeout: float | None
    lock_timeout: float
    mpi: bool
    gate: tuple[Path, ...]
    gate_new: tuple[Path, ...]
    gate_policy: Path | None
    clean: bool
    results: Path

    def describe(self) -> str:
        """The header line's content."""
        targets = ", ".join(f"{name}={path}" if name != "default" else str(path) for name, path in self.targets)
        size = f", size {format_size(self.size)}" if self.size else ""
        return f"profile {self.profile}{size}, cache {self.cache or 'direct'}, target {targets}"


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise ConfigError(f"{text!r} names nothing: write a comma list.")
    return names


def _cases(texts: list[str], base: Path) -> frozenset[str]:
    cases: set[str] = set()
    for text in texts:
        if not text.startswith("@"):
            cases.add(text)
            continue
        try:
            lines = (base / text[1:]).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{text[1:]} cannot be read: {error}.") from None
        cases.update(line.strip() for line in lines if line.strip())
    if not cases:
        raise ConfigError(f"{' '.join(texts)} names no case.")
    return frozenset(cases)


def _paths(texts: list[str], base: Path) -> tuple[Path, ...]:
    return tuple(base / name for text in texts for name in _names(text))


def _counts(text: str) -> tuple[int, ...]:
    counts = []
    for part in _names(text):
        if not re.fullmatch(r"\d{1,9}", part, re.ASCII) or int(part) < 1:
            raise ConfigError(f"{part!r} is not a whole number above zero.")
        counts.append(int(part))
    return tuple(counts)


def parse_batches(text: str) -> tuple[tuple[int, int], ...]:
    """Submit and reap batches of a comma list like ``1x1,32x8``.

    Raises:
        ConfigError: one is malformed.
    """
    batches = []
    for part in _names(text):
        match = re.fullmatch(r"(\d{1,6})(?:x(\d{1,6}))?", part, re.ASCII)
        if match is None or int(match[1]) < 1 or int(match[2] or match[1]) < 1:
            raise ConfigError(f"{part!r} is not a batch: write SxR, submit x reap, like 1x1 or 32x8, or N for NxN.")
        batches.append((int(match[1]), int(match[2] or match[1])))
    return tuple(batches)


def _arrivals(text: str) -> tuple[Arrivals, ...]:
    processes = tuple(dict.fromkeys(Arrivals.parse(part) for part in _names(text)))
    labels = [process.label for process in processes]
    if len(set(labels)) < len(labels):
        raise ConfigError(f"{text!r} names two processes that ids cannot tell apart.")
    return processes


def _knobs(text: str) -> tuple[dict[str, bool], int]:
    knobs: dict[str, bool] = {}
    sq_idle_ms = 50
    for part in _names(text):
        name, _, setting = part.partition("=")
        if name == "sq_idle_ms" and re.fullmatch(r"[1-9]\d{0,5}", setting, re.ASCII):
            sq_idle_ms = int(setting)
        elif name in KNOBS and setting in ("on", "off"):
            knobs[name] = setting == "on"
        else:
            raise ConfigError(f"{part!r} is none of {', '.join(f'{knob}=on|off' for knob in KNOBS)}, sq_idle_ms=N.")
    return knobs, sq_idle_ms


def _destinations(text: str) -> tuple[Destination, ...]:
    found = []
    for part in dict.fromkeys(_names(text)):
        if part not in DESTINATIONS:
            raise ConfigError(f"{part!r} is none of {', '.join(DESTINATIONS)}.")
        found.append(part)
    return tuple(found)


def _gpu_choice(text: str) -> tuple[int, ...] | str:
    if text.strip() in ("near", "far"):
        return text.strip()
    ordinals: list[int] = []
    for part in _names(text):
        if not re.fullmatch(r"\d{1,3}", part, re.ASCII) or int(part) in ordinals:
            raise ConfigError(
                f"{part!r} is not the number of another GPU: they are numbered from 0, see nvidia-smi -L; or use "
                "near or far alone."
            )
        ordinals.append(int(part))
    return tuple(ordinals)


def _copies(text: str) -> dict[str, Any]:
    copies: dict[str, Any] = {}
    for part in _names(text):
        name, _, setting = part.partition("=")
        if (name, setting) in (("wait", "spin"), ("wait", "sleep"), ("check", "kernel"), ("check", "copy")):
            copies[name] = setting
        elif (name == "streams" and re.fullmatch(r"[1-9]|1[0-6]", setting, re.ASCII)) or (
            name == "ahead" and re.fullmatch(r"[1-9]\d{0,2}", setting, re.ASCII)
        ):
            copies[name] = int(setting)
        else:
            raise ConfigError(
                f"{part!r} is none of wait=spin|sleep, streams=1 to 16, ahead=1 to 999, check=kernel|copy."
            )
    return copies


def _parameters(texts: list[str]) -> dict[str, str]:
    return dict(parse_pairs(",".join(texts)))


def _scale(text: str) -> dict[str, str]:
    SCALE.parse(text)
    return {SCALE.name: text}


def _numa(text: str) -> str:
    if not re.fullmatch(r"near|any|\d{1,4}", text, re.ASCII):
        raise ConfigError(f"{text!r} is none of near, any, and the number of a NUMA node.")
    return text


def _devices(texts: list[str]) -> tuple[str, ...]:
    devices = tuple(dict.fromkeys(name for text in texts for name in _names(text)))
    for name in devices:
        if name.startswith(PREFIX):
            spdk_address(name)
        elif not re.fullmatch(r"/[^\0]+", name):
            raise ConfigError(f"{name!r} is no device: name each exactly, like /dev/nvme1n1.")
    return devices


def _window(text: str) -> float:
    seconds = parse_duration(text)
    if seconds < _SHORTEST_WINDOW_S:
        raise ConfigError(f"{text!r} is shorter than {_SHORTEST_WINDOW_S * 1e3:g} ms, too short to count anything in.")
    return seconds


def _seed(text: str) -> int:
    if not re.fullmatch(r"\d{1,19}", text, re.ASCII):
        raise ConfigError(f"{text!r} is not a whole number of at most 19 digits.")
    return int(text)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(parse_size(part, what="block size") for part in _names(text)))


def _targets(texts: list[str], base: Path) -> tuple[tuple[str, Path], ...]:
    targets: dict[str, Path] = {}
    for text in texts:
        head, separator, tail = text.partition("=")
        named = bool(separator) and _TARGET_NAME.fullmatch(head) is not None
        if separator and not named and "/" not in head and not head.startswith(PREFIX):
            raise ConfigError(f"target name {head!r} must be lower-case letters, digits and '_' (it is part of ids).")
        name, path = (head, tail) if named else ("default", text)
        if name == "default" and "default" in targets:
            raise ConfigError(
                "several targets need names: --gpuio-target fast=/mnt/nvme0 --gpuio-target slow=/mnt/hdd."
            )
        if name in targets:
            raise ConfigError(f"two targets are named {name!r}.")
        if not path or "\0" in path:
            raise ConfigError(f"{text!r} has no path: write NAME=PATH or PATH.")
        if spdk_address(path) is not None:
            targets[name] = Path(path)
            continue
        targets[name] = Path(os.path.abspath(base / Path(path).expanduser()))  # noqa: PTH100 - resolve() follows links
    return tuple(targets.items())


def read(value: Callable[[str], Any], base: Path) -> Settings:
    """Parse every option.

    Args:
        value: what was given for an option's name, None = nothing.
        base: folder that relative paths start from.

    Raises:
        ConfigError: naming the option, what is wrong with it and how to write it.
    """

    def parsed(name: str, parse: Callable[[str], Any], default: Any) -> Any:
        given = value(name)
        if given is None:
            return default
        option = next(option for option in OPTIONS if option.name == name)
        try:
            if option.choices and given not in option.choices:
                raise ConfigError(f"{given!r} is none of {', '.join(option.choices)}.")
            return parse(given)
        except ConfigError as error:
            raise ConfigError(f"{option.flag_name}: {error}") from None

    knobs, sq_idle_ms = parsed("knob", _knobs, ({}, 50))
    return Settings(
        targets=parsed(
            "target", lambda texts: _targets(cast("list[str]", texts), base), (("default", base / ".gpuio"),)
        ),
        datapath=parsed("datapath", _names, None),
        workload=parsed("workload", _names, None),
        parameters=parsed("workload-param", lambda texts: _parameters(cast("list[str]", texts)), {})
        | parsed("scale", _scale, {}),
        cases=parsed("case", lambda texts: _cases(cast("list[str]", texts), base), None),
        bs=parsed("bs", _sizes, None),
        qd=parsed("qd", _counts, None),
        jobs=parsed("jobs", _counts, None),
        batch=parsed("batch", parse_batches, ((1, 1),)),
        size=parsed("size", parse_size, None),
        precision=parsed("precision", parse_percent, None),
        max_time=parsed("max-time", parse_duration, None),
        window=parsed("window", _window, None),
        profile=parsed("profile", str, "quick"),
        seed=parsed("seed", _seed, 1),
        require=frozenset(parsed("require", _names, ())),
        cache=parsed("cache", str, None),
        arrivals=parsed("arrivals", _arrivals, (Arrivals(),)),
        wait=parsed("wait", str, "sleep"),
        knobs=knobs,
        sq_idle_ms=sq_idle_ms,
        destination=parsed("destination", _destinations, None),
        gpus=parsed("gpus", _counts, (1,)),
        gpu=parsed("gpu", _gpu_choice, ()),
        copies=parsed("copy", _copies, {}),
        daemons=parsed("daemon", _counts, ()),
        force=bool(value("force")),
        numa=parsed("numa", _numa, "near"),
        allow_destroy=parsed("allow-destroy", lambda texts: _devices(cast("list[str]", texts)), ()),
        verify=parsed("verify", str, "sweep"),
        strict=bool(value("strict")),
        timeout=parsed("timeout", parse_duration, None),
        lock_timeout=parsed("lock-timeout", parse_duration, 60.0),
        mpi=bool(value("mpi")),
        gate=parsed("gate", lambda texts: _paths(cast("list[str]", texts), base), ()),
        gate_new=parsed("gate-new", lambda texts: _paths(cast("list[str]", texts), base), ()),
        gate_policy=parsed("gate-policy", lambda text: base / str(text), None),
        clean=bool(value("clean")),
        results=base / parsed("results", str, "gpuio-results.json"),
    )
