"""What every experiment of a suite shares: settings, tools, places to measure on, and plans."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pytest_gpuio.core.cell import Cache
from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.crosscheck import devices
from pytest_gpuio.crosscheck.fio import Fio, find_fio
from pytest_gpuio.crosscheck.ours import Ours
from pytest_gpuio.datapaths import DataPath
from pytest_gpuio.isolation import HostLock
from pytest_gpuio.machine import affinity
from pytest_gpuio.measure.plan import Plan, VerifyMode
from pytest_gpuio.measure.prepare import choose_cpus, choose_poller_cpus, interrupt_names
from pytest_gpuio.media import classify
from pytest_gpuio.targets import target_file

PlaceName = Literal["none", "zram", "tmpfs", "cached", "loop", "loop_ext4", "disk"]

_ZRAM_BYTES: Final = 1 << 30
_MEMORY_BYTES: Final = 256 << 20
_CACHED_BYTES: Final = 512 << 20
_DISK_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Settings:
    """How a suite is run.

    Attributes:
        folder: on the disk that the disk's lines and the cached file use.
        fio: path of fio; None = on PATH.
        pairs: of each comparison. seconds: timed part of each run.
        quick: short runs without verdicts. full: the lines that take hours, too.
        only: pattern of the claims' names.
        lock: the host's, held while the suite runs; None = nobody holds it.
    """

    folder: Path
    fio: str | None = None
    pairs: int = 7
    seconds: float = 2.0
    quick: bool = False
    full: bool = False
    only: str = "*"
    lock: HostLock | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a plan reads: file or device, the region in it, bytes.

    Attributes:
        verify: what is checked; a device that was never written holds no pattern.
    """

    path: str | None
    offset: int
    bytes: int
    cache: Cache
    pattern_seed: int = 0
    verify: VerifyMode = "none"


@dataclass(slots=True)
class Lab:
    """See the module; ``interrupted`` is set when the user ended a comparison early."""

    settings: Settings
    ours: Ours
    say: Callable[[str], None]
    interrupted: bool = field(default=False)
    _fio: Fio | None = None

    @property
    def fio(self) -> Fio:
        """The fio to compare with.

        Raises:
            CapabilityMissing: there is none.
        """
        if self._fio is None:
            self._fio = find_fio(self.settings.fio)
        return self._fio

    @contextlib.contextmanager
    def lent_lock(self) -> Iterator[None]:
        """Leaves the host's lock to a process of ours that takes it by itself.

        Raises:
            Busy: somebody else took it meanwhile and keeps it.
        """
        if self.settings.lock is not None:
            self.settings.lock.release()
        yield
        if self.settings.lock is not None:
            self.settings.lock.acquire()

    @contextlib.contextmanager
    def place(self, name: PlaceName, size: int = _MEMORY_BYTES) -> Iterator[Place]:
        """A place, made if need be and taken away again; files in the user's folder stay, as after a pytest run.

        Args:
            name: of the place.
            size: bytes of those in memory.

        Raises:
            CapabilityMissing: this machine cannot have it.
            TargetError, ConfigError: the folder cannot be used.
        """
        match name:
            case "none":
                yield Place(None, 0, _ZRAM_BYTES, "direct")
            case "zram":
                with devices.zram(_ZRAM_BYTES) as device:
                    yield Place(device, 0, _ZRAM_BYTES, "direct")
            case "loop":
                with devices.loop_over_tmpfs(size) as device:
                    yield Place(device, 0, size, "direct")
            case "loop_ext4":
                with devices.ext4_on_loop(size) as folder:
                    yield self._file(folder, size, "direct")
            case "tmpfs":
                with devices.tmpfs_folder(size) as folder:
                    yield self._file(folder, size, "direct")
            case "cached":
                yield self._file(self.settings.folder, _CACHED_BYTES, "hot")
            case "disk":
                self._need_device(self.settings.folder)
                yield self._file(self.settings.folder, _DISK_BYTES, "direct")

    def _file(self, folder: Path, size: int, cache: Cache) -> Place:
        if cache == "direct":
            reason = self.ours.ask("probe", "probe", {"name": "o_direct", "target": str(folder)}, deadline_s=15.0)
            if reason is not None:
                raise CapabilityMissing(str(reason))
        laid = self.ours.lay_out(str(target_file(folder, writes=False)), size)
        return Place(laid.path, laid.data_offset, size, cache, laid.pattern_seed, "sweep")

    @staticmethod
    def _need_device(folder: Path) -> None:
        medium = classify(folder)
        if medium.name == "ram" or not medium.counted:
            raise CapabilityMissing(f"{folder} lies on no block device ({medium.name}): name a folder on a disk.")

    def plan(
        self,
        path: DataPath,
        place: Place,
        *,
        qd: int,
        bs: int = 4096,
        batch: int = 1,
        engine: str | None = None,
        **changes: Any,
    ) -> Plan:
        """A plan of random reads by one worker on one CPU.

        Args:
            path: sets engine and knobs.
            place: where.
            qd: requests in flight.
            bs: bytes per request.
            batch: requests per submit call and completions a reap waits for.
            engine: another engine table than the path's.
            changes: further fields of the plan.

        Raises:
            CapabilityMissing: the path's poller finds no CPU of its own.
        """
        cpus = choose_cpus(1, affinity())
        medium = classify(place.path) if place.path is not None else None
        values: dict[str, Any] = {
            "engine": engine or path.engine,
            "library": None,
            "path": place.path,
            "region_offset": place.offset,
            "region_bytes": place.bytes,
            "pattern_seed": place.pattern_seed,
            "order": "random",
            "read_percent": 100,
            "zipf_theta": 0.0,
            "bs": bs,
            "qd": qd,
            "jobs": 1,
            "submit_batch": batch,
            "reap_batch": batch,
            "knobs": tuple(sorted(path.knobs)),
            "cache": place.cache,
            "sync": "none",
            "sync_every": 0,
            "dsync": False,
            "round": "time",
            "window_s": 0.25,
            "precision": 0.05,
            "max_time": self.settings.seconds,
            "timeout_s": 60.0,
            "verify": place.verify,
            "counted": medium.counted if medium is not None else (),
            "interrupt_names": interrupt_names(medium) if medium is not None else (),
            "cpus": cpus,
            "seed": 1,
            "sq_cpus": choose_poller_cpus(path, cpus, affinity()),
        }
        return Plan(**{**values, **changes})
