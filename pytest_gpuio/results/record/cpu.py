"""The CPU account of a cell: parts, threads, the control figure, and what else went on in the host."""

from __future__ import annotations

from typing import Literal, TypedDict

ThreadRole = Literal["submitter", "kernel_helper", "library", "other"]


class CpuThread(TypedDict):
    """CPU seconds of one thread of the measuring child; ``tid`` is null for the rest, which is no single thread."""

    name: str
    role: ThreadRole
    seconds: float
    tid: int | None


class Daemon(TypedDict):
    """CPU seconds of a process outside that worked for the cell."""

    pid: int
    name: str
    seconds: float


class Control(TypedDict):
    """The host's CPU over the measured stretch, gaps between windows included, set against the account.

    ``truth_s`` is online CPUs x wall less idle, iowait and steal; ``parts_s`` the child's CPU, interrupts outside of
    tasks and daemons; ``elsewhere_s`` that of all other processes, ``elsewhere`` by name; ``no_task_s`` what was spent
    while no task ran (interrupts that met an idle CPU), null where the kernel does not tell; ``unattributed_s`` =
    truth - parts - elsewhere - no task, ``unattributed_share`` relative to the truth. ``reason`` says why it is not
    trusted.
    ``uncertainty_s`` is by how much the figures may miss each other; ``idle_cores`` is what the host used while nothing
    was measured, null where that was not watched.
    """

    trusted: bool
    reason: str | None
    seconds: float
    truth_s: float | None
    parts_s: float
    elsewhere_s: float
    elsewhere: dict[str, float]
    no_task_s: float | None
    unattributed_s: float | None
    unattributed_share: float | None
    uncertainty_s: float
    idle_cores: float | None


class LoadPoint(TypedDict):
    """The load a CPU cost belongs to: rank orders at depth 1 and at saturation are opposite."""

    qd: int
    iops: float


class Metered(TypedDict):
    """What the meter saw beside the child's own clocks; null where unknown, with the reason.

    ``irq_s`` and ``softirq_s`` are interrupt time that no task's clock holds; ``irq_reason`` says whose, or why null.
    ``sq_useful_share`` is work over CPU time of the submission pollers. ``runqueue_wait_s`` is what the child's living
    threads waited for a CPU, ``steal_s`` what the hypervisor took from all CPUs, both over the measured stretch.
    ``cycles_per_io`` and ``instructions_per_io`` are those of the last warm-up window.
    """

    irq_s: float | None
    softirq_s: float | None
    irq_reason: str | None
    daemons: list[Daemon]
    sq_useful_share: float | None
    sq_reason: str | None
    cycles_per_io: float | None
    instructions_per_io: float | None
    perf_reason: str | None
    runqueue_wait_s: float | None
    steal_s: float | None
    control: Control


class Cpu(Metered):
    """CPU of the windows: the measuring child's ``seconds``, plus interrupts outside of tasks and daemons.

    ``cores_used`` is all of it over the windows' time; ``cores_reserved`` counts a whole core for each thread that
    polls. The figures per core are null when that was too little to see.
    """

    seconds: float
    user_s: float
    system_s: float
    cores_used: float
    cores_reserved: float
    gb_per_s_per_core: float | None
    gb_per_s_per_core_reserved: float | None
    ns_per_io: float
    threads: list[CpuThread]
    voluntary_switches: int
    involuntary_switches: int
    minor_faults: int
    major_faults: int
    load_point: LoadPoint


class LongestWait(TypedDict):
    """The thread of the measuring child that was ready to run without a CPU for longest, and for how many seconds."""

    thread: str
    seconds: float


class Temperature(TypedDict):
    """Degrees Celsius of a drive before and after the measured stretch."""

    device: str
    before: float | None
    after: float


class Surroundings(TypedDict):
    """What else went on over the measured stretch; null where the machine does not tell.

    ``steal_share`` of the workers' CPUs' time the hypervisor took (``steal_ticks`` of it), ``cpu_throttles`` counts
    slow-downs for heat, ``quota_stops`` stops because a CPU quota was used up, ``hot`` names drives at their own
    warning limit, ``io_limits`` the control group's limits.
    """

    steal_share: float | None
    steal_ticks: int
    cpu_throttles: int | None
    quota_stops: int | None
    longest_wait: LongestWait | None
    temperatures: list[Temperature]
    hot: list[str]
    io_limits: list[str]
