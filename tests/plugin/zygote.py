"""Runs of pytest as forks of a process that has its modules in memory: reading them takes as long as most runs do."""

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: pytest and its plugins, and what a run with one measured cell reads beyond the plugin's own modules.
MODULES = (
    "pytest_benchmark.plugin",
    "pytest_gpuio.plugin.cells",
    "pytest_gpuio.phases.workloads",
    "pytest_gpuio.measure.session",
    "pytest_gpuio.results.run_file",
    "pytest_gpuio.report.tables",
    "rich.console",
)


class Zygote:
    """The process that is forked; it runs until the object is closed."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self):
        self._process.communicate(timeout=10)  # closes its input, which ends it

    def run(self, arguments, timeout_s):
        """pytest with these arguments, in this directory and environment, as its own process.

        Raises:
            TimeoutError: it was killed after so many seconds.
        """
        names = [str(Path(name).resolve()) for name in ("stdout", "stderr")]
        request = {"arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ), "output": names}
        begun = time.monotonic()
        # The deadline is kept over there, beside the process.
        print(json.dumps(request | {"timeout_s": timeout_s}), file=self._process.stdin, flush=True)
        status, late = map(int, self._process.stdout.readline().split())
        out, err = (Path(name).read_text(encoding="utf-8").splitlines() for name in names)
        print(*out, sep="\n")
        print(*err, sep="\n", file=sys.stderr)
        if late:
            raise TimeoutError(f"pytest {' '.join(arguments)} was killed after {timeout_s} s")
        return pytest.RunResult(status, out, err, time.monotonic() - begun)


def serve():
    """Forks for each request until there are no more; returns in the fork, with its request."""
    importlib.import_module("pytest")
    for name in importlib.import_module("_pytest.config").default_plugins:
        importlib.import_module(f"_pytest.{name}")
    for name in MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while line := sys.stdin.readline():
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            return request
        until, late = time.monotonic() + request["timeout_s"], False
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                late = True
            time.sleep(0.005)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), int(late), flush=True)
    return None


def main():
    request = serve()
    if request is None:
        return 0
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, name in zip((1, 2), request["output"], strict=True):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), descriptor)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[:] = ["pytest", *request["arguments"]]
    # A test writes one suite after another in the same second, which the date of a compiled one would not tell apart.
    sys.dont_write_bytecode = True
    return pytest.main()


if __name__ == "__main__":
    sys.exit(main())
