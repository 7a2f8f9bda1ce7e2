"""What a user may ask of measuring, as one table of ``--gpuio-*`` options: of pytest and of ``gpuio sweep``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        name: without ``--gpuio-``. metavar, help: for ``--help``.
        ini: has an ini twin ``gpuio_name``, for what lasts.
        repeat: may be given several times. choices: allowed words. flag: takes no value.
    """

    name: str
    metavar: str
    help: str
    ini: bool = True
    repeat: bool = False
    choices: tuple[str, ...] | None = None
    flag: bool = False

    @property
    def flag_name(self) -> str:
        """``--gpuio-max-time``."""
        return f"--gpuio-{self.name}"

    @property
    def dest(self) -> str:
        """``gpuio_max_time``, name of the attribute and of the ini twin."""
        return "gpuio_" + self.name.replace("-", "_")


OPTIONS: Final = (
    Option(
        "target",
        "[NAME=]PATH",
        "where to measure: a directory (files of our own are laid out in it), such a file, or a raw device; repeat it "
        "for several media. Default: ./.gpuio/",
        repeat=True,
    ),
    Option(
        "allow-destroy",
        "DEVICES",
        "raw devices among the targets that may be overwritten, each named exactly, comma list or repeated: "
        "/dev/nvme1n1,/dev/ng2n1",
        # A permission for this run, never one that lasts.
        ini=False,
        repeat=True,
    ),
    Option(
        "force",
        "",
        "overwrite the devices of --gpuio-allow-destroy although they carry partitions or the signature of a file "
        "system or volume; never one that is mounted, swapped to or held",
        ini=False,
        flag=True,
    ),
    Option("datapath", "NAMES", "data paths to measure, comma list: psync,libaio,io_uring (default: all but null)"),
    Option("workload", "NAMES", "only these workloads, comma list, patterns allowed: 'inference/*,micro/randread'"),
    Option(
        "scale",
        "FACTOR",
        "size of workloads that are models (bytes and number of files, never requests): 1 = the real thing, 0.01 = a "
        "hundredth (default: the model's own)",
    ),
    Option(
        "workload-param",
        "NAME=VALUE",
        "parameters of workloads that are models, comma list or repeated: model=llama-3.1-70b,ranks=8",
        repeat=True,
    ),
    Option(
        "case",
        "CASES",
        "only cells with these history keys, as gates and results name them: repeated, or @FILE with one a line",
        ini=False,
        repeat=True,
    ),
    Option(
        "plan",
        "PLAN",
        "the cells of this sweep plan (study, hour, smoke, or a TOML file) instead of all combinations of the options; "
        "they are all that runs when no suite is named",
        ini=False,
    ),
    Option("bs", "SIZES", "block sizes instead of the workload's, comma list: 4k,64k,1M (k = KiB = 1024, KB = 1000)"),
    Option("qd", "DEPTHS", "queue depths per job instead of the workload's, comma list: 1,32"),
    Option("jobs", "COUNTS", "worker threads instead of the workload's, comma list: 1,4"),
    Option(
        "batch", "SxR", "requests per submit call x completions a reap waits for, comma list: 1x1,32x32 (default: 1x1)"
    ),
    Option(
        "arrivals",
        "PROCESSES",
        "open loop: requests arrive on a schedule instead of when others end; comma list of closed, fixed:RATE, "
        "poisson:RATE, gamma:RATE:CV, file:PATH (default: closed)",
    ),
    Option(
        "wait",
        "HOW",
        "how an open loop waits for the next arrival: sleep, or spin (later arrivals by less, one whole core) "
        "(default: sleep)",
        choices=("sleep", "spin"),
    ),
    Option(
        "destination",
        "MEMORY",
        "memory the bytes end in (writes: begin in), comma list: host,gpu (default: the data path's own, mostly host)",
    ),
    Option(
        "gpus", "COUNTS", "numbers of GPUs, each with --gpuio-jobs workers of its own, comma list: 1,2 (default: 1)"
    ),
    Option(
        "gpu",
        "NUMBERS|near|far",
        "which GPUs: by the CUDA driver's numbers, comma list: 2,3; or by their way to the target: near (same switch, "
        "root complex or NUMA node first), far (default: all, from 0)",
    ),
    Option(
        "copy",
        "NAME=VALUE",
        "between host and GPU memory, comma list: wait=spin|sleep, streams=N of each worker, ahead=N staging slots "
        "beyond the depth, check=kernel|copy of data on the GPU (default: wait=spin,streams=1,check=kernel)",
    ),
    Option(
        "knob",
        "NAME=VALUE",
        "engine settings, comma list: fixed_buffers, registered_files, single_issuer, merged_wait = on|off, "
        "sq_idle_ms=N (default: the data path's own)",
    ),
    Option(
        "daemon",
        "PIDS",
        "processes outside that do I/O for us (a FUSE or SPDK daemon), comma list: their CPU is added",
    ),
    Option(
        "numa",
        "NODE",
        "NUMA node of workers and buffers: near (that of the target's device), any, or a number (default: near)",
    ),
    Option("size", "SIZE", "bytes of the target each cell works on (default by profile: 1g, 8g, 32g)"),
    Option(
        "precision", "PERCENT", "stop a cell when its mean is known this well, 95 % confidence (by profile: 5%, 2%, 1%)"
    ),
    Option("max-time", "TIME", "measure a cell for at most this long, beyond warm-up (by profile: 1s, 10s, 60s)"),
    Option(
        "window",
        "TIME",
        "a cell is measured in windows of at least this length, 5ms or more: shorter ones take less time and are less "
        "steady (by profile: 250ms, 250ms, 500ms)",
    ),
    Option(
        "profile",
        "NAME",
        "how much effort: quick (minutes), standard, thorough (default: quick)",
        choices=("quick", "standard", "thorough"),
    ),
    Option("seed", "N", "seed of offsets and of the read/write mix (default: 1)"),
    Option(
        "require",
        "NAMES",
        "fail instead of skip when these capabilities or data paths are missing, comma list, or 'all'",
    ),
    Option(
        "cache",
        "MODE",
        "direct: O_DIRECT, never silently dropped; cold: page cache emptied and proved empty before each window; hot: "
        "page cache filled on purpose (default: direct)",
        choices=("direct", "cold", "hot"),
    ),
    Option(
        "verify",
        "MODE",
        "sweep: check what each job's last requests left in memory; full: check every read, inside the window; none "
        "(default: sweep)",
        choices=("none", "sweep", "full"),
    ),
    Option("strict", "", "fail cells whose number is true but not steady", flag=True),
    Option(
        "timeout", "TIME", "a window that takes longer is stuck: the cell fails (default: from its bytes, at least 60s)"
    ),
    Option(
        "mpi",
        "",
        "this command was started once per rank, by mpirun or srun: every cell is measured on all ranks at once and "
        "recorded by rank 0 (pip install 'pytest-gpuio[mpi]')",
        ini=False,
        flag=True,
    ),
    Option("lock-timeout", "TIME", "wait so long for another gpuio run on this host (default: 60s)"),
    Option(
        "gate",
        "FILES",
        "judge this run against baseline runs, comma list or repeated: files or a storage folder like .benchmarks; a "
        "failed gate fails the run",
        repeat=True,
    ),
    Option(
        "gate-new",
        "FILES",
        "earlier runs of what is judged, comma list or repeated: with three of them this run is the one that confirms",
        ini=False,
        repeat=True,
    ),
    Option("gate-policy", "FILE", "rules of the gate by axis: metrics, effects, what to ignore (TOML)"),
    Option(
        "clean",
        "",
        "remove the files of workloads that are models when the run ends (default: they stay for the next one, see "
        "gpuio clean)",
        flag=True,
    ),
    Option("results", "FILE", "our own results file (default: gpuio-results.json)"),
)
