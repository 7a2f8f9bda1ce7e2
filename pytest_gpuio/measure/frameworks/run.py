"""A run of a framework: each window saves or loads everything once, as the application whose objects they are."""

from __future__ import annotations

import json
import os
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pytest_gpuio.core.errors import CapabilityMissing, CellVoid, EngineError
from pytest_gpuio.core.sizes import describe_size
from pytest_gpuio.engine import HISTOGRAMS, Histogram, Sweep, Window, pattern_fill
from pytest_gpuio.engine.replay import RESULTS
from pytest_gpuio.machine.kernel import memory_bytes
from pytest_gpuio.measure.frameworks import FRAMEWORKS
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.stretch import Stretch
from pytest_gpuio.phases.objects import Objects
from pytest_gpuio.targets import drop, warm

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SECTOR: Final = 512
#: Where each tensor begins in the memory it is made in, in bytes.
_TENSOR_ALIGNMENT: Final = 4096
#: Share of the memory that is free which the objects may take, and the copies that loading makes of them.
_MEMORY_SHARE: Final = 0.4
_OVERHEAD_LOOPS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Unit:
    """What one call saves or loads: a path, and the numbers of the objects that go into it."""

    path: Path
    files: tuple[int, ...]


class FrameworkRun:
    """Windows of one framework; a context manager, like :class:`pytest_gpuio.engine.Run`.

    An I/O of a window is one of the model's, as the compiled engine would issue it for the same bytes; what the
    framework really asks the kernel for is its own affair.

    Args:
        plan: with the objects; ``engine`` names the framework.
        rank: that this process is; None = all of them, one after the other.
        stop: when its first word becomes non-zero, windows end early.

    Raises:
        CapabilityMissing: the framework is not there, or the objects do not fit into memory.
        EngineError: files that are to be loaded could not be made.
    """

    def __init__(self, plan: Plan, rank: int | None, stop: memoryview) -> None:
        assert plan.replay is not None
        told = json.loads(Path(plan.replay.objects).read_text(encoding="utf-8"))
        self._plan, self._stop = plan, stop
        self._objects = Objects.from_json(told["objects"])
        self._folder = Path(told["folder"])
        self._framework = FRAMEWORKS[plan.engine]()
        ranks = range(len(self._objects.ranks)) if rank is None else (rank,)
        self._units = [self._units_of(one) for one in ranks]
        self._ios = sum(told["ios"][one] for one in ranks)
        self._histograms = {name: Histogram.empty() for name in HISTOGRAMS}
        self._loaded: dict[Path, Any] = {}
        self._check_memory(len(self._objects.ranks) if rank is not None else 1)
        for unit in self._every_unit():
            unit.path.parent.mkdir(parents=True, exist_ok=True)
        self._held = {unit.path: self._hold(unit) for unit in self._every_unit()}
        if self._objects.direction == "load":
            self._make_files(range(len(self._objects.ranks)) if rank is None else (rank,))
        self._python_ns = self._overhead()

    def _units_of(self, rank: int) -> list[Unit]:
        mine = self._objects.ranks[rank]
        if self._framework.joins_files:
            # Whoever reads what others wrote finds it by what is in it.
            return [Unit(self._folder / ("state-" + "-".join(map(str, mine))), mine)]
        suffix = self._framework.suffix
        return [Unit((self._folder / self._objects.files[at].name).with_suffix(suffix), (at,)) for at in mine]

    def _every_unit(self) -> Iterator[Unit]:
        for units in self._units:
            yield from units

    def _check_memory(self, processes: int) -> None:
        free = memory_bytes(Path("/"), "MemAvailable")
        mine = sum(self._objects.files[index].bytes for unit in self._every_unit() for index in unit.files)
        if free is not None and mine * processes > _MEMORY_SHARE * free:
            raise CapabilityMissing(
                f"{self._plan.engine} holds its objects in memory: {describe_size(mine)} in each of {processes} "
                f"processes, and {free:,} bytes are available: use a smaller --gpuio-scale."
            )

    def _hold(self, unit: Unit) -> Any:
        """The unit's tensors as the framework has them: with their content to save, empty to say what is loaded."""
        import numpy as np

        save = self._objects.direction == "save"
        if save:
            return self._framework.hold(self._content(unit))
        sizes = self._names(unit)
        return self._framework.hold({name: np.empty(size, np.uint8) for name, size in sizes.items()})

    def _names(self, unit: Unit) -> Mapping[str, int]:
        joined = len(unit.files) > 1
        return {
            f"{self._objects.files[index].name}/{name}" if joined else name: size
            for index in unit.files
            for name, size in self._objects.files[index].tensors
        }

    def _content(self, unit: Unit) -> Mapping[str, NDArray[np.uint8]]:
        """Tensors of incompressible bytes, the same each time they are made."""
        import numpy as np

        sizes = self._names(unit)
        rooms = [-(-size // _TENSOR_ALIGNMENT) * _TENSOR_ALIGNMENT for size in sizes.values()]
        memory = np.empty(sum(rooms), np.uint8)
        pattern_fill(memory.data, unit.files[0] << 40, self._plan.seed)
        found, place = {}, 0
        for (name, size), room in zip(sizes.items(), rooms, strict=True):
            found[name] = memory[place : place + size]
            place += room
        return found

    def _make_files(self, ranks: Sequence[int]) -> None:
        """Save what will be loaded; each unit is made by the first rank that reads it."""
        first: dict[Path, int] = {}
        for rank in range(len(self._objects.ranks)):
            for unit in self._units_of(rank):
                first.setdefault(unit.path, rank)
        for unit in self._every_unit():
            if first[unit.path] not in ranks or unit.path.exists():
                continue
            try:
                self._framework.save(self._framework.hold(self._content(unit)), unit.path, fsync=True)
            except (OSError, RuntimeError) as error:
                raise EngineError(f"{self._plan.engine} cannot save {unit.path}: {error}") from error

    def _overhead(self) -> float:
        begin = time.monotonic_ns()
        for _ in range(_OVERHEAD_LOOPS):
            time.monotonic_ns()
            self._stop[0]
            time.monotonic_ns()
        return max((time.monotonic_ns() - begin) / _OVERHEAD_LOOPS, 1.0)

    def prepare(self) -> None:
        """Bring the page cache into the state that was asked for; outside windows.

        Raises:
            CellVoid: it could not be emptied.
        """
        for unit in self._every_unit():
            if not unit.path.exists():
                continue  # not saved yet
            for path in self._framework.written(unit.path):
                with _opened(path) as (fd, size):
                    if self._plan.cache == "hot":
                        warm(fd, 0, size)
                    elif left := drop(fd, 0, size):
                        raise CellVoid(
                            "cold_cache",
                            f"{left:,} bytes of {path} stay in the page cache after fdatasync and POSIX_FADV_DONTNEED",
                        )

    def replay(self, first: int, count: int, results: array[int]) -> Window:
        """Everything once. The groups are those of the model: one for each rank and time.

        Args:
            first: 0.
            count: number of groups, all there are.
            results: due, start, end and consumption of each.

        Raises:
            EngineError: another number of groups, or the framework broke.
        """
        turns = self._objects.times
        if (first, count) != (0, turns * len(self._units)):
            raise EngineError(f"groups {first} to {first + count}: a framework saves and loads all there is")
        self._loaded.clear()
        self._histograms = {name: Histogram.empty() for name in HISTOGRAMS}
        failed: OSError | None = None
        errors, ended = 0, [0] * len(self._units)
        stretch = Stretch()
        for turn in range(turns):
            for place, units in enumerate(self._units):
                begin = time.monotonic_ns() - stretch.start_ns
                for unit in units:
                    if self._stop[0]:
                        break
                    try:
                        self._one(unit)
                    except OSError as error:
                        failed, errors = failed or error, errors + 1
                end = time.monotonic_ns() - stretch.start_ns
                at = RESULTS * (turn * len(self._units) + place)
                results[at : at + RESULTS] = array("Q", (ended[place], begin, end, end, 0))
                ended[place] = end
        stretch.end()
        return stretch.window(self._counted(errors, failed))

    def _one(self, unit: Unit) -> None:
        begin = time.monotonic_ns()
        try:
            if self._objects.direction == "save":
                self._framework.save(self._held[unit.path], unit.path, fsync=self._objects.fsync)
            else:
                self._loaded[unit.path] = self._framework.load(self._held[unit.path], unit.path)
        except RuntimeError as error:
            raise EngineError(f"{self._plan.engine}: {unit.path}: {error}") from error
        took = time.monotonic_ns() - begin
        for name in ("lat", "clat"):
            self._histograms[name].add(took)

    def _counted(self, errors: int, failed: OSError | None) -> dict[str, Any]:
        save = self._objects.direction == "save"
        ios = 0 if errors else self._ios
        moved = 0
        for unit in self._every_unit():
            if unit.path.exists():
                moved += sum(path.stat().st_size for path in self._framework.written(unit.path))
        return {
            "ios": ios,
            "writes" if save else "reads": ios,
            "bytes": moved * self._objects.times,
            "syncs": sum(map(len, self._units)) * self._objects.times if save and self._objects.fsync else 0,
            "errors": errors,
            "first_error": -(failed.errno or 0) if failed is not None else 0,
            "first_error_op": int(save),
            "max_in_flight": 1,
            "stopped": int(bool(self._stop[0])),
        }

    def histograms(self) -> dict[str, Histogram]:
        """Of the last window: how long each call took."""
        return self._histograms

    def sweep(self) -> Sweep:
        """Compare every tensor: of what the last window loaded, or of what it saved, loaded once more."""
        import numpy as np

        checked = bad = 0
        for unit in {unit.path: unit for unit in self._every_unit()}.values():
            loaded = self._loaded.get(unit.path)
            if loaded is None:
                loaded = self._framework.load(self._held[unit.path], unit.path)
            found = self._framework.bytes_of(loaded)
            for name, wanted in self._content(unit).items():
                checked += 1
                bad += name not in found or not np.array_equal(np.ravel(found[name]), wanted)
        return Sweep(checked, bad, 0)

    @property
    def slots(self) -> int:
        """One call at a time."""
        return 1

    @property
    def effective_knobs(self) -> frozenset[str]:
        """None: a framework has settings instead, see :meth:`library_values`."""
        return frozenset()

    @property
    def knob_reason(self) -> str:
        """Empty: nothing was asked for."""
        return ""

    @property
    def facts(self) -> str:
        """Empty: see :meth:`library_values`."""
        return ""

    def library_values(self) -> dict[str, Any]:
        """Name, version and calls of the framework; a call is one file, or one folder."""
        calls = sum(map(len, self._units)) * self._objects.times
        return {
            "settings": dict(self._framework.settings()),
            "requests_per_call": max(self._ios // calls, 1),
            "calls_in_flight": 1,
            "python_ns_per_call": self._python_ns,
            "prepare_ns": None,
            "post_ns": None,
            "transfer_ns": None,
        }

    def close(self) -> None:
        """Let go of the memory; the folder is the parent's."""
        self._held.clear()
        self._loaded.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, int]]:
    """Descriptor and bytes of a file of ours."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield fd, os.fstat(fd).st_size
    finally:
        os.close(fd)
