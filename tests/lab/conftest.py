"""Fixtures of the lab's suites: one kernel, and the outcome of each machine; those that are needed run side by side."""

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from vmlab import LabBroken, LabLate, LabUnavailable, Outcome, Pool, fetch_kernel, machines_at_once, run_job
from vmlab.devices import optane_qemu
from vmlab.kernel import SOURCES
from vmlab.machine import Action, Machine

JOBS = Path(__file__).parent / "jobs"
#: Text that is printed after the tests: heading -> lines.
TABLES = pytest.StashKey[dict[str, str]]()
#: Names of the machines that the selected tests need.
NEEDED = pytest.StashKey[tuple[str, ...]]()


def slow_down(machine: Machine) -> None:
    """A thousand requests a second, which an emulated drive on a busy host surpasses, too."""
    with machine.monitor() as monitor:
        (name,) = [each["device"] for each in monitor("query-block") if each["device"] == "throttled"]
        limits = dict.fromkeys(("bps", "bps_rd", "bps_wr", "iops_rd", "iops_wr"), 0)
        monitor("block_set_io_throttle", device=name, iops=1000, **limits)


def unplug(machine: Machine) -> None:
    """Takes the drive out of its slot."""
    with machine.monitor() as monitor:
        monitor("device_del", id="removable")


def cut(machine: Machine) -> None:
    """Takes the power away."""
    machine.kill()


@dataclass(frozen=True)
class Plan:
    """A machine: ``jobs/NAME.py`` with devices.

    Attributes:
        devices: of the lab.
        actions: what the host does when the job asks for it.
        summed: images whose checksums are taken when the job signals ``before`` and ``after``.
        optane: its NVMe controllers say that they are Optane.
        expected: exit status of the job; None when the power is cut.
        deadline_s: of a boot; what is normal here takes a third of it.
        job: where it is not the machine's name.
    """

    devices: tuple[str, ...]
    actions: Mapping[str, Action] = field(default_factory=dict)
    summed: tuple[str, ...] = ()
    optane: bool = False
    expected: int | None = 0
    deadline_s: float = 900
    job: str = ""


#: Fixture, or parameter of one -> machine, the longest first.
MACHINES = {
    "matrix": Plan(("all",)),
    "drives": Plan(
        ("nvme", "nvme4k", "under_dm", "ext4", "brd", "bad_nvme", "bad_virtio", "virtio", "numa_nvme"),
        actions={"cut": cut},
        summed=("nvme", "nvme4k"),
        optane=True,
        expected=None,
    ),
    "dying": Plan(
        ("nvme", "under_dm", "under_md0", "brd", "throttled", "removable"),
        actions={"slow": slow_down, "unplug": unplug},
    ),
    "spdk_uio": Plan(("removable",), job="spdk"),
    "spdk_vfio": Plan(("iommu", "removable"), job="spdk"),
}


@dataclass(frozen=True)
class Ended:
    """A machine that has done its job.

    Attributes:
        images: folder of its disks.
        sums: checksums of those that were asked for, at each signal.
    """

    outcome: Outcome
    images: Path
    sums: tuple[tuple[bytes, ...], ...]


def pytest_addoption(parser):
    parser.addoption("--lab-kernel", choices=SOURCES, help="where the lab's kernel comes from (default: the newest)")
    more = "machines at the same time (default: 2 where there are 2 processors and the memory)"
    parser.addoption("--lab-machines", type=int, metavar="N", help=more)
    more = "time for all machines; tests of those that are not done by then are skipped (default: as long as it takes)"
    parser.addoption("--lab-minutes", type=float, metavar="N", help=more)


def pytest_configure(config):
    config.stash[TABLES] = {}
    config.stash[NEEDED] = ()


def pytest_collection_finish(session):
    wanted = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if os.environ.get("GPUIO_SPDK_LIBDIR"):
        calls = (item.callspec for item in session.items if hasattr(item, "callspec"))
        wanted |= {call.params["spdk"] for call in calls if "spdk" in call.params}
    session.config.stash[NEEDED] = tuple(name for name in MACHINES if name in wanted)


def pytest_terminal_summary(terminalreporter, config):
    for heading, text in config.stash[TABLES].items():
        terminalreporter.section(heading)
        terminalreporter.write_line(text)


@pytest.fixture(scope="session")
def tables(pytestconfig):
    """Heading -> text to print at the end."""
    return pytestconfig.stash[TABLES]


@pytest.fixture(scope="session")
def kernel(pytestconfig):
    """The kernel that every machine of this run boots."""
    try:
        return fetch_kernel(pytestconfig.getoption("--lab-kernel"))
    except LabUnavailable as error:
        pytest.skip(f"no lab here: {error}")


@pytest.fixture(scope="session")
def lab(kernel, tmp_path_factory, pytestconfig):
    """Function: the outcome of a machine by its name; all that this run needs are started at once."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(line):
        # A boot takes minutes: whoever watches sees that it goes on.
        if os.environ.get("CI") or pytestconfig.get_verbosity() > 0:
            with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
                print(line, flush=True)

    ended: dict[str, Ended] = {}
    folders = {name: tmp_path_factory.mktemp(name) for name in pytestconfig.stash[NEEDED]}
    jobs = {name: functools.partial(_run, kernel, name, folder, ended) for name, folder in folders.items()}
    minutes = pytestconfig.getoption("--lab-minutes")
    at_once = pytestconfig.getoption("--lab-machines") or machines_at_once()
    pool = Pool(jobs, at_once, say, None if minutes is None else 60 * minutes)

    def outcome(name: str) -> Ended:
        try:
            pool.outcome(name)
        except LabUnavailable as error:
            pytest.skip(str(error))
        except LabLate as error:
            pytest.skip(f"machine {name!r}: {error}")
        except LabBroken as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        return ended[name]

    try:
        yield outcome
    finally:
        pool.close()


def _run(
    kernel, name: str, folder: Path, ended: dict[str, Ended], said: Callable[[str], None], stop: Callable[[], bool]
) -> Outcome:
    plan, share, images = MACHINES[name], folder / "share", folder / "images"
    share.mkdir()
    images.mkdir()
    sums: list[tuple[bytes, ...]] = []

    def look(_machine: Machine) -> None:
        # On the host: emulated processors would take a minute.
        sums.append(tuple(hashlib.sha256((images / f"{each}.img").read_bytes()).digest() for each in plan.summed))

    actions = dict(plan.actions) | ({"before": look, "after": look} if plan.summed else {})
    program = optane_qemu(folder) if plan.optane else ("qemu-system-x86_64",)
    spdk = os.environ.get("GPUIO_SPDK_LIBDIR", "")
    job = f'export GPUIO_SPDK_LIBDIR="{spdk}"\n' if spdk else ""
    job += f'cd /tmp\nPYTHONPATH={JOBS} exec "$PYTHON" {JOBS}/{plan.job or name}.py\n'
    outcome = run_job(
        kernel, job, share, devices=plan.devices, images=images, program=program, actions=actions,
        deadline_s=plan.deadline_s, said=said, stop=stop,
    )  # fmt: skip
    if outcome.status != plan.expected and not outcome.stopped:
        raise LabBroken(f"job {name} ended with status {outcome.status}, not {plan.expected}:\n{outcome.log[-4000:]}")
    ended[name] = Ended(outcome, images, tuple(sums))
    return outcome


@pytest.fixture(scope="session")
def matrix(lab):
    """Every data path on every medium."""
    return lab("matrix")


@pytest.fixture(scope="session")
def drives(lab):
    """What is refused, what has errors, what is placed where, and at the end a power cut."""
    return lab("drives")


@pytest.fixture(scope="session")
def dying(lab):
    """Drives that are well when a cell begins and not when it ends."""
    return lab("dying")


@pytest.fixture(scope="session", params=["spdk_uio", "spdk_vfio"])
def spdk(request):
    """A drive that the kernel gives up for SPDK, through each of the drivers that pass it on."""
    if not os.environ.get("GPUIO_SPDK_LIBDIR"):
        pytest.skip("GPUIO_SPDK_LIBDIR names no installed SPDK")
    return request.getfixturevalue("lab")(request.param)
