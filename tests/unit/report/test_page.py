"""The page: what is in it, and that a real browser shows, filters and sorts it without a network or an error."""

import json
import random
import re
import shutil
import threading

import pytest

from pytest_gpuio.analysis.recommend import recommend_by_machine
from pytest_gpuio.cli.command import main
from pytest_gpuio.report.page.charts import charts
from pytest_gpuio.report.page.rows import MOST_ROWS, page_data

vl_convert = pytest.importorskip("vl_convert", reason="needs vl-convert: pip install 'pytest-gpuio[report]'")

PATHS = {"psync": 1.0, "libaio": 1.5, "io_uring": 1.8}


@pytest.fixture
def cells(record):
    """Function: cells of three paths, two workloads, five sizes and depths, around a speed."""

    def make(speed=1.0, sizes=(4096, 65536, 1 << 20), depths=(1, 8, 32, 128)):
        draw = random.Random(speed)
        found = []
        for workload in ("inference/kv_fetch", "pretrain/dataset_read"):
            for path, factor in PATHS.items():
                for bs in sizes:
                    for qd in depths:
                        cell = record()
                        cell["axes"] |= {"workload": workload, "datapath": path, "bs": bs, "qd": qd}
                        cell["phase"] = workload.partition("/")[0]
                        cell["case"] = "s|" + "|".join(f"{k}={v}" for k, v in cell["axes"].items())
                        cell["effective"]["datapath"] = path
                        rate = 1e9 * factor * speed * qd / (qd + 8) * draw.gauss(1, 0.01)
                        cell["bytes_per_s"], cell["gb_per_s"] = rate, rate / 1e9
                        seconds = cell["bytes"] / cell["ios"] * cell["windows"]["ios_per_window"] / rate
                        cell["windows"]["seconds"] = [seconds] * 4
                        cell["gates"] = [] if draw.random() < 0.9 else cell["gates"]
                        found.append(cell)
        return found

    return make


@pytest.fixture
def results(cells, tmp_path):
    """Files of runs: eight quick ones, then seven slower by a fifth; voids, skips and a hostile name among them."""
    for number in range(15):
        made = cells(1.0 if number < 8 else 0.8)
        made[0]["effective"]["evidence"] = ["</script><script>window.hacked = true</script>", "engine psync"]
        content = {
            "schema": 1, "kind": "gpuio-results", "created": f"2026-11-{number + 1:02}T00:00:00Z", "cells": made,
            "machine": {"id": "a" * 16, "kernel": "6.12", "cpu": {"model": "EPYC <9654>", "cores": 192}},
            "voids": [{"case": "v", "axes": made[0]["axes"], "gate": "littles_law", "reason": "7 % off"}],
            "skips": [{"case": "x", "reason": "needs a GPU"}],
        }  # fmt: skip
        (tmp_path / f"r{number:02}.json").write_text(json.dumps(content))
    return tmp_path


def test_rows_know_knees_the_front_and_change_points(cells, run):
    runs = [run(*cells(1.0 if number < 8 else 0.8)) for number in range(15)]
    data = page_data(runs)
    assert data.total == len(data.cells) == 72
    knees = {row["qd"] for row in data.cells if row.get("knee")}
    assert knees == {128} or knees == {32, 128}  # qd / (qd + 8) is 94 % at 128, 80 % at 32
    front = [row for row in data.cells if row.get("pareto")]
    assert front
    for row in front:
        assert not any(
            other["gbs"] > row["gbs"] and other["per_core"] > row["per_core"]
            for other in data.cells
            if other["workload"] == row["workload"] and other["settled"]
        )
    steps = [row["number"] for row in data.history if row["step"]]
    assert steps
    assert set(steps) == {8}
    assert {chart.name for chart in charts(data)} == {
        "heat-bs", "heat-qd", "depth", "load", "front", "latency", "cpu", "history",
    }  # fmt: skip


def test_nothing_to_draw(run):
    data = page_data([run()])
    assert charts(data) == []


def test_very_many_cells_are_aggregated(record, run):
    base = record()
    many = [
        {**base, "case": str(i), "axes": {**base["axes"], "bs": 512 * (i % 97 + 1), "qd": i % 89 + 1, "jobs": i}}
        for i in range(MOST_ROWS + 4000)
    ]
    data = page_data([run(*many)])
    assert data.total == MOST_ROWS + 4000
    assert len(data.cells) <= MOST_ROWS


def test_pictures_and_markdown(results, tmp_path, capsys):
    out = tmp_path / "out"
    command = [
        "report",
        str(results / "r00.json"),
        "--svg",
        str(out),
        "--png",
        str(out),
        "--markdown",
        str(tmp_path / "t.md"),
    ]
    assert main(command) == 0
    assert (out / "depth.svg").read_text().startswith("<svg")
    assert (out / "depth.png").read_bytes().startswith(b"\x89PNG")
    assert "| case | GB/s |" in (tmp_path / "t.md").read_text()


@pytest.mark.parametrize(
    ("more", "told"),
    [([], "name what to write"), (["-o", "x.html", "--gate", "GATE"], "is not what gpuio gate --json wrote")],
)
def test_mistakes_are_named(results, capsys, more, told):
    gate = str(results / "r00.json")
    assert main(["report", gate, *(gate if word == "GATE" else word for word in more)]) == 2
    assert told in capsys.readouterr().err


def test_without_vl_convert_the_remedy_is_named(results, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    assert main(["report", str(results / "r00.json"), "-o", str(tmp_path / "p.html")]) == 2
    assert "pip install 'pytest-gpuio[report]'" in capsys.readouterr().err


def test_the_page_in_a_browser(results, tmp_path, capsys):
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs Debian's chromium")
    gate = tmp_path / "gate.json"
    finding = {"verdict": "SLOWER", "case": "c", "metric": "p99", "decision": {"change": 0.2}, "reason": "confirmed"}
    gate.write_text(json.dumps({"kind": "gpuio-gate", "findings": [finding]}))
    page_file = tmp_path / "page.html"
    assert main(["report", *map(str, sorted(results.glob("r*.json"))), "--gate", str(gate), "-o", str(page_file)]) == 0
    text = page_file.read_text()
    assert len(text) < 5_000_000
    assert not re.search(r'(?:src|href)="https?:', text)
    found = {}

    def look():  # a thread of its own: playwright's loop must not meet another plugin's
        with sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium,
                args=["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                      "--disable-component-update", "--disable-sync"],
            )  # fmt: skip
            page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="dark")
            problems, requests = [], []
            page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("request", lambda request: requests.append(request.url))
            page.goto(page_file.as_uri())
            page.wait_for_selector("html[data-ready=all]", timeout=60_000)
            found["theme"] = page.get_attribute("html", "data-theme")
            found["count"] = page.inner_text("#count")
            found["rows"] = page.locator("#cells tbody tr").count()
            page.select_option("select[name=path]", "io_uring")
            page.fill("input[name=text]", "64k qd8")
            page.wait_for_timeout(300)
            found["filtered"] = page.inner_text("#count")
            page.get_by_role("button", name="clear", exact=True).click()
            page.wait_for_timeout(300)
            page.fill("input[name=text]", "no such cell")
            page.wait_for_timeout(300)
            found["nothing"] = page.locator(".empty:visible").count(), page.inner_text("#no-cells")
            page.locator("#no-cells button").click()
            page.wait_for_timeout(300)
            page.get_by_role("button", name="GB/s", exact=False).first.focus()
            page.keyboard.press("Enter")
            found["sorted"] = [float(cell) for cell in page.locator("#cells tbody td:nth-child(3)").all_inner_texts()]
            page.locator("#cells button.open").first.focus()
            page.keyboard.press("Enter")
            found["evidence"] = page.locator("tr.more").inner_text()
            page.get_by_role("button", name="switch between light and dark").click()
            found["switched"] = page.get_attribute("html", "data-theme")
            found["drawn"] = page.locator(".chart svg.marks, .chart canvas.marks").count()
            found["charts"] = page.locator(".chart").count()
            found["wide"] = page.evaluate("document.documentElement.scrollWidth")
            page.set_viewport_size({"width": 420, "height": 900})
            found["narrow"] = page.evaluate("document.documentElement.scrollWidth")
            page.emulate_media(media="print")
            ink = "getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()"
            found["printed"] = page.evaluate(ink), page.locator("#filters").is_visible()
            page.emulate_media(media="screen")
            found["hacked"] = page.evaluate("window.hacked === true")
            found["voids"] = page.inner_text("#voids")
            found["gates"] = page.inner_text("#gates")
            found["problems"], found["requests"] = problems, requests
            browser.close()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(120)
    assert not thread.is_alive()
    assert found["problems"] == []
    assert found["requests"] == [page_file.as_uri()]
    assert (found["theme"], found["switched"]) == ("dark", "light")
    assert found["drawn"] == found["charts"] == 8
    assert found["nothing"] == (9, "No cell passes the filters. clear them")
    assert (found["wide"], found["narrow"]) == (1280, 420)  # nothing pushes the page sideways
    assert found["printed"] == ("#000", False)
    assert (found["count"], found["rows"], found["filtered"]) == ("72 of 72 rows", 72, "2 of 72 rows")
    assert found["sorted"] == sorted(found["sorted"])
    assert "case=" in found["evidence"] or "workload=" in found["evidence"]
    assert found["hacked"] is False
    assert "littles_law" in found["voids"]
    assert "SLOWER" in found["gates"]


def test_recommendations_reach_the_page(cells, run):
    from pytest_gpuio.report.page.build import build_page

    runs = [run(*cells()) for _ in range(3)]
    page = build_page(runs, recommend_by_machine(runs), "A <title>")
    assert "<h1>A &lt;title&gt;</h1>" in page
    assert "Cheat sheet" in page


def test_cells_of_two_machines_do_not_hide_each_other(cells, run):
    from pytest_gpuio.report.page.build import build_page

    hosts = [{"id": letter * 16, "kernel": "6.12", "cpu": {"model": f"CPU {letter}"}} for letter in "ab"]
    runs = [run(*cells(), machine=host) for host in hosts for _ in range(3)]
    data = page_data(runs)
    assert data.total == 144
    assert {row["machine"] for row in data.cells} == {"a" * 8, "b" * 8}
    assert {row["cell"].rpartition(" ")[2] for row in data.history} == {"(aaaaaaaa)", "(bbbbbbbb)"}
    page = build_page(runs, recommend_by_machine(runs), "two")
    assert all(f"<h3>machine {letter * 16}</h3>" in page for letter in "ab")
    assert '"key":"machine"' in page
    one = build_page(runs[:3], recommend_by_machine(runs[:3]), "one")
    assert '"key":"machine"' not in one
    assert "<h3>machine" not in one


def test_a_page_without_any_cell_still_stands(run):
    from pytest_gpuio.report.page.build import build_page

    page = build_page([run(voids={"v": {"case": "v", "gate": "no_errors", "reason": "EIO"}})], {}, "empty")
    assert "no_errors" in page
    assert '<form id="filters"' not in page
    assert "no cell" in page
