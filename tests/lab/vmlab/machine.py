"""A virtual machine that runs one job."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vmlab import devices as lab_devices
from vmlab.errors import LabBroken
from vmlab.initramfs import GUEST, initial_disk
from vmlab.kernel import Kernel
from vmlab.monitor import Monitor

#: Emulation of several CPUs is not perfect: a boot in some thirty ends in an oops of the kernel's own code patching.
BOOTS = 3
_EMULATOR_BUG = re.compile(r"int3: 0000|sched_clock_cpu")
_LOOK_EVERY_S = 0.1
#: Emulated even where there is KVM: a nested one that fails in the middle only stops, and says nothing.
_ACCELERATOR = "tcg,thread=multi"
_COMMAND_LINE = "console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check mitigations=off nopti intel_iommu=on"

#: What the host does when the guest makes the file ``/lab/signals/NAME``; its end is the file ``NAME.done``.
Action = Callable[["Machine"], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended.

    Attributes:
        status: exit status of the job; None when the machine was killed on purpose.
        share: the folder that the guest saw as ``/lab``, with what the job left there.
        devices: name of the lab -> path in the guest; what could not be built is not in it.
        missing: name of the lab -> why it could not be built.
        boots: how often it had to be started.
        seconds: from the first start to the end.
        stopped: it was switched off because nobody waited for it any more.
        cpu_seconds: of the host's processors that the last boot took, which a busy host does not change much.
    """

    status: int | None
    share: Path
    devices: Mapping[str, str]
    missing: Mapping[str, str]
    boots: int
    seconds: float
    cpu_seconds: float
    stopped: bool = False

    @property
    def log(self) -> str:
        """What the job said."""
        return read(self.share / "job.log")


@dataclass
class Machine:
    """A machine that is off, on, or was on.

    Attributes:
        kernel: what it boots.
        share: folder of the host that the guest sees as ``/lab``.
        options: QEMU's, for devices.
        program: QEMU and options of its own.
    """

    kernel: Kernel
    share: Path
    options: Sequence[str] = ()
    program: Sequence[str] = ("qemu-system-x86_64",)
    #: It was killed on purpose.
    killed: bool = False
    #: Of the host's processors, as last seen.
    cpu_seconds: float = 0.0
    _process: subprocess.Popen[bytes] | None = None
    _sockets: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Switch it on."""
        # Names of sockets are short, names of pytest's folders are not.
        self._sockets = tempfile.TemporaryDirectory(prefix="lab-")
        shares: list[str] = []
        for tag, path, more in (("root", Path("/"), ",readonly=on,multidevs=remap"), ("lab", self.share, "")):
            shares += ["-fsdev", f"local,id={tag},path={path},security_model=none{more}"]
            shares += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
        command = [
            *self.program, "-accel", _ACCELERATOR, "-cpu", "max", "-smp", "2",
            "-m", f"{lab_devices.MEMORY_BYTES >> 20}M,slots=8,maxmem=16G",
            "-M", "q35,smm=off,nvdimm=on,nvdimm-persistence=cpu", "-nodefaults", "-no-user-config", "-nographic",
            "-no-reboot", "-serial", f"file:{self.share}/console.log",
            "-qmp", f"unix:{self._sockets.name}/qmp,server=on,wait=off",
            "-kernel", str(self.kernel.image), "-initrd", str(initial_disk(self.kernel)), "-append", _COMMAND_LINE,
            *shares, *self.options,
        ]  # fmt: skip
        environment = dict(os.environ, QEMU_MODULE_DIR="/usr/lib/x86_64-linux-gnu/qemu")
        with (self.share / "qemu.log").open("wb") as said:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=environment
            )

    @property
    def running(self) -> bool:
        """It is on."""
        if self._process is None or self._process.poll() is not None:
            return False
        # Fields 14 and 15; the second one is a name in parentheses.
        words = read(Path("/proc", str(self._process.pid), "stat")).rpartition(")")[2].split()
        if len(words) > 12:
            self.cpu_seconds = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        return True

    @property
    def refused(self) -> bool:
        """QEMU did not take its options."""
        return self._process is not None and self._process.returncode == 1

    @contextlib.contextmanager
    def monitor(self) -> Iterator[Monitor]:
        """A connection to its monitor."""
        if self._sockets is None:
            raise LabBroken("the machine is off")
        with Monitor(Path(self._sockets.name, "qmp")) as monitor:
            yield monitor

    def kill(self) -> None:
        """A power cut: whatever the guest had only in memory is lost."""
        self.killed = True
        self._end()

    def close(self) -> None:
        """Switch it off if it is on."""
        self._end()
        if self._sockets is not None:
            self._sockets.cleanup()
            self._sockets = None

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)


def run_job(
    kernel: Kernel,
    job: str,
    share: Path,
    *,
    devices: Sequence[str] = (),
    images: Path | None = None,
    program: Sequence[str] = ("qemu-system-x86_64",),
    actions: Mapping[str, Action] | None = None,
    deadline_s: float = 600,
    said: Callable[[str], None] = lambda _text: None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Boots, builds the devices, runs a shell script as root, and brings back what it left.

    Args:
        kernel: what to boot.
        job: the script; ``$PYTHON`` is this Python, whose programs are first on the path. The host's files are there
            under their own names, and what is written to them is forgotten.
        share: an empty folder that the guest sees as ``/lab``.
        devices: of :data:`vmlab.devices.DEVICES`.
        images: folder of disk images; None = new ones, which are deleted.
        program: QEMU.
        actions: what to do when the guest makes ``/lab/signals/NAME``.
        deadline_s: of each boot.
        said: called with each new piece of the job's output.
        stop: nobody waits for the outcome any more.

    Raises:
        LabBroken: no boot ended the job.
    """
    names = lab_devices.closure(devices)
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        if images is None:
            images = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lab-images-")))
        for boots in range(1, BOOTS + 1):
            _fill(share, kernel, job, names)
            machine = Machine(kernel, share, lab_devices.qemu_options(names, images), program)
            try:
                machine.start()
                late = not _follow(machine, dict(actions or {}), started + deadline_s * boots, said, stop)
            finally:
                machine.close()
            status = read(share / "status").strip()
            if status or machine.killed:
                built = json.loads(read(share / "devices.json") or "{}")
                return Outcome(
                    int(status) if status else None,
                    share,
                    built.get("devices", {}),
                    built.get("missing", {}),
                    boots,
                    time.monotonic() - started,
                    machine.cpu_seconds,
                )
            if stop():
                return Outcome(
                    None, share, {}, {}, boots, time.monotonic() - started, machine.cpu_seconds, stopped=True
                )
            console = read(share / "console.log")
            if machine.refused:
                break
            if (share / "began").exists() and not _EMULATOR_BUG.search(console):
                break
    why = "could not be started" if machine.refused else f"was not done in {deadline_s:.0f} s" if late else "died"
    words = (
        f"console: {console[-2000:]}\njob: {read(share / 'job.log')[-4000:]}\nQEMU: {read(share / 'qemu.log')[-500:]}"
    )
    raise LabBroken(f"the machine {why}, boot {boots} of {BOOTS}\n{words}")


def _fill(share: Path, kernel: Kernel, job: str, names: Sequence[str]) -> None:
    for name in ("status", "began", "devices.json", "job.log", "console.log"):
        (share / name).unlink(missing_ok=True)
    shutil.rmtree(share / "signals", ignore_errors=True)
    (share / "signals").mkdir()
    (share / "job").write_text(job)
    for name in ("second", "prepare.py"):
        shutil.copy(GUEST / name, share / name)
    (share / "modules").write_text(f"{kernel.folder}/lib/modules\n")
    (share / "names").write_text(" ".join(names))
    python = Path(sys.executable)
    safe = "export PYTHONSAFEPATH=1\n" if sys.flags.safe_path else ""
    (share / "environment").write_text(f"export PYTHON='{python}' PATH='{python.parent}':\"$PATH\"\n{safe}")


def _follow(
    machine: Machine,
    actions: dict[str, Action],
    until: float,
    said: Callable[[str], None],
    stop: Callable[[], bool],
) -> bool:
    """Waits for the machine's end, acts when the guest asks; False when it took too long, or was stopped."""
    log = machine.share / "job.log"
    position = 0
    while True:
        running = machine.running
        with contextlib.suppress(OSError), log.open("rb") as file:
            file.seek(position)
            text = file.read()
            position += len(text)
            if text:
                said(text.decode(errors="replace"))
        if not running:
            return True
        if time.monotonic() > until or stop():
            return False
        for name in [name for name in actions if (machine.share / "signals" / name).exists()]:
            actions.pop(name)(machine)
            (machine.share / "signals" / f"{name}.done").touch()
        time.sleep(_LOOK_EVERY_S)


def read(path: Path) -> str:
    """Text of a file that a guest wrote; empty when it is not there."""
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
