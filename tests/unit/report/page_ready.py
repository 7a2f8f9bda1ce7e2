"""How large the page of very many cells is, and how soon it can be read: run by hand on a quiet machine.

    python tests/unit/report/page_ready.py 1000 25000

Cells are synthetic, records have the real shape. "ready" is the time from navigation to a page that can be read, sorted
and filtered with what is in sight drawn; "all" that of the last chart. Needs vl-convert, playwright and chromium.
"""

import copy
import json
import math
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import NormalDist

from pytest_gpuio.cli.command import main
from pytest_gpuio.results import histogram

GOLDEN = Path(__file__).parents[2] / "golden/cell_record.json"
PATHS = {"psync": (1.0, 1.0), "libaio": (1.5, 1.1), "io_uring": (1.8, 1.4), "io_uring_sqpoll": (1.9, 0.7),
         "io_uring_iopoll": (1.95, 0.9), "mmap": (0.7, 0.5)}  # fmt: skip
WORKLOADS = ("pretrain/dataset_read", "pretrain/checkpoint_write", "finetune/shuffle_read", "inference/model_load",
             "inference/kv_fetch", "inference/random_read_4k")  # fmt: skip
MEDIA = {"nvme_ssd": 7e9, "sata_ssd": 5.5e8}
SIZES = (4096, 16384, 65536, 262144, 1 << 20, 4 << 20)
DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)


def cells(count, seed=1):
    """So many records: every combination in turn, with more jobs once all are there."""
    draw = random.Random(seed)
    golden = json.loads(GOLDEN.read_text())
    grid = [(m, w, p, bs, qd) for m in MEDIA for w in WORKLOADS for p in PATHS for bs in SIZES for qd in DEPTHS]
    order = sorted(range(len(grid)), key=lambda number: (number * 7919) % len(grid)) if count < len(grid) else None
    for number in range(count):
        medium, workload, path, bs, qd = grid[order[number] if order else number % len(grid)]
        jobs = 1 + number // len(grid)
        cell = copy.deepcopy(golden)
        cell["axes"] |= {"workload": workload, "datapath": path, "medium": medium, "bs": bs, "qd": qd, "jobs": jobs}
        cell["phase"] = workload.partition("/")[0]
        cell["case"] = "page|" + "|".join(f"{axis}={value}" for axis, value in cell["axes"].items())
        cell["effective"]["datapath"] = path
        cell["target"]["medium"] = medium
        speed, thrift = PATHS[path]
        depth = 1 if path in ("psync", "mmap") else qd
        rate = MEDIA[medium] * min(1.0, speed / 2 * bs / (bs + 30000) * depth * jobs / (depth * jobs + 6) * 1.6)
        rate *= draw.gauss(1, 0.01)
        cell["bytes_per_s"], cell["gb_per_s"], cell["iops"] = rate, rate / 1e9, rate / bs
        window = cell["windows"]["ios_per_window"] * cell["bytes"] / cell["ios"] / rate
        cell["windows"]["seconds"] = [window * draw.gauss(1, 0.003) for _ in range(4)]
        cell["latency"]["lat"] |= _latency(draw, 1e9 * qd * jobs * bs / rate)
        work = rate / 1e9 / (8 * thrift) + 0.02
        poller = path == "io_uring_sqpoll"
        used, reserved = work + 0.7 * poller, work + 1.0 * poller
        seconds = cell["seconds"]
        threads = [{"role": "sqpoll", "seconds": 0.7 * seconds}] if poller else []
        cell["cpu"] |= {
            "seconds": used * seconds, "user_s": 0.3 * work * seconds, "threads": threads,
            "system_s": (0.7 * work + 0.7 * poller) * seconds, "cores_used": used, "cores_reserved": reserved,
            "gb_per_s_per_core": rate / 1e9 / used, "gb_per_s_per_core_reserved": rate / 1e9 / reserved,
        }  # fmt: skip
        cell["gates"] = [] if draw.random() < 0.95 else cell["gates"]
        yield cell


def _latency(draw, typical_ns):
    """A distribution with a tail, as a record tells it."""
    tail = draw.uniform(1.5, 3.5)
    counts = {}
    for share in range(1, 2000):
        ns = typical_ns * math.exp(0.25 * NormalDist().inv_cdf(share / 2000) * (tail if share > 1900 else 1.0))
        counts[histogram.bin_of(round(ns))] = counts.get(histogram.bin_of(round(ns)), 0) + 10
    low, high = histogram.bin_low(min(counts)), histogram.bin_low(max(counts))
    quantiles = {"p50_ns": 0.5, "p90_ns": 0.9, "p95_ns": 0.95, "p99_ns": 0.99, "p999_ns": 0.999}
    return {
        "count": sum(counts.values()), "min_ns": low, "max_ns": high, "histogram": histogram.encode(counts),
        **{name: histogram.quantile(counts, share, low, high) for name, share in quantiles.items()},
    }  # fmt: skip


def runs(folder, count, repeats=1):
    """Files of ``repeats`` runs with so many cells each; a fifth slower from the ninth run on."""
    for number in range(repeats):
        made = list(cells(count, seed=number))
        if number >= 8:
            for cell in made:
                cell["bytes_per_s"] *= 0.8
                cell["windows"]["seconds"] = [1.25 * s for s in cell["windows"]["seconds"]]
        content = {
            "schema": 1, "kind": "gpuio-results", "created": f"2026-11-{number + 1:02}T08:00:00Z", "cells": made,
            "machine": {"id": "5f0e6c2a9b1d4e77", "kernel": "6.12.9", "memory_bytes": 768 << 30,
                        "cpu": {"model": "AMD EPYC 9654 96-Core Processor", "cores": 192}},
            "voids": [{"case": made[0]["case"] + "x", "axes": made[0]["axes"], "gate": "littles_law",
                       "reason": "31.2 requests in flight by latency, 17.4 counted: 44 % apart"}],
            "skips": [{"case": f"{number}s{i}", "reason": "gds needs a GPU: no device is visible"} for i in range(9)],
        }  # fmt: skip
        (folder / f"run{number:02}.json").write_text(json.dumps(content))


def ready(page_file, chromium):
    """Milliseconds until the page can be used, and until everything is drawn."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(page_file.as_uri())
        page.wait_for_selector("html[data-ready=all]", timeout=120_000)
        marks = page.evaluate("performance.getEntriesByType('mark').map((mark) => [mark.name, mark.startTime])")
        browser.close()
    when = dict(marks)
    return when["ready charts"], when["ready all"]


if __name__ == "__main__":
    chromium = shutil.which("chromium") or sys.exit("needs chromium")
    for count in map(int, sys.argv[1:] or ["1000"]):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            runs(folder, count)
            begin = time.monotonic()
            if main(["report", str(folder), "-o", str(folder / "page.html")]):
                sys.exit(1)
            spent = time.monotonic() - begin
            soon, late = ready(folder / "page.html", chromium)
            size = (folder / "page.html").stat().st_size / 1e6
            print(f"{count} cells: {size:.1f} MB, made in {spent:.1f} s, ready after {soon:.0f} ms, all {late:.0f} ms")
