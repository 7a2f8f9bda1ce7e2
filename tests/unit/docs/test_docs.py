"""The documentation names everything there is, links to what exists, and its examples run."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from pytest_gpuio.capabilities import CAPABILITIES
from pytest_gpuio.core import drift
from pytest_gpuio.core.cell import MEDIA
from pytest_gpuio.datapaths import DATAPATHS
from pytest_gpuio.measure import gates
from pytest_gpuio.measure.effort import PROFILES
from pytest_gpuio.measure.gates import impossible, physics, unsettled, warning
from pytest_gpuio.measure.options import OPTIONS
from pytest_gpuio.measure.plan import LEAST_WINDOW_S
from pytest_gpuio.phases import WORKLOADS, RecordModel
from pytest_gpuio.phases.parameter import spell
from pytest_gpuio.plugin import fixtures, hookspecs
from pytest_gpuio.results.validate import schema

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
REFERENCE = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
#: Copies: other tests register more.
OUR_DATAPATHS = dict(DATAPATHS)
OUR_WORKLOADS = dict(WORKLOADS)
GATES = (ROOT / "docs/validity-gates.md").read_text(encoding="utf-8")
#: Words of the design for data paths; what is not in the registry must be called "not yet".
DESIGNED = {
    "psync", "libaio", "io_uring", "io_uring_sqpoll", "io_uring_iopoll", "io_uring_full", "io_uring_cmd", "mmap", "dax",
    "spdk", "gds", "gds_compat", "kvikio", "nixl_posix", "nixl_gds", "usrbio", "null",
}  # fmt: skip


def rows(text: str) -> dict[str, list[str]]:
    """Cells of table rows by the names in backticks of their first column."""
    found = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            first, *cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            for name in re.findall(r"`([^`]+)`", first):
                found[name] = cells
    return found


def section(text: str, title: str) -> str:
    """A section of the second level."""
    (part,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return part


def test_there_is_a_row_for_each_option_with_its_ini_twin():
    table = rows(section(REFERENCE, "Options"))
    for option in OPTIONS:
        assert table[option.flag_name][0] == (f"`{option.dest}`" if option.ini else "")
        for choice in option.choices or ():
            assert f"`{choice}`" in table[option.flag_name][1]
    documented = {name for name in table if name.startswith("--")}
    assert documented == {option.flag_name for option in OPTIONS}


def test_profiles_have_their_figures():
    table = rows(section(REFERENCE, "Options"))
    for name, profile in PROFILES.items():
        expected = [f"{profile.size >> 30} GiB", f"{profile.precision:.0%}".replace("%", " %")]
        expected += [f"{profile.max_time:g} s", f"{profile.window_s:g} s"]
        assert table[name] == expected


def test_each_fixture_has_a_row():
    made = {
        name
        for name, value in vars(fixtures).items()
        if type(value).__name__ == "FixtureFunctionDefinition" and value.__module__ != "pytest"
    }
    assert "gpuio" in made
    assert set(rows(section(REFERENCE, "Fixtures"))) >= made


def test_each_hook_and_mark_is_named():
    hooks = {name for name in vars(hookspecs) if name.startswith("pytest_gpuio_")}
    assert hooks
    for hook in hooks:
        assert f"`{hook}(config)`" in section(REFERENCE, "Hooks")
    plugin = (ROOT / "pytest_gpuio/plugin/__init__.py").read_text(encoding="utf-8")
    for mark in re.findall(r'"markers", "(\w+)\(', plugin):
        assert f"{mark}(" in section(REFERENCE, "Marks")


def test_workloads_have_their_figures():
    table = rows(section(REFERENCE, "Workloads"))
    assert set(table) == set(OUR_WORKLOADS)
    for name, workload in OUR_WORKLOADS.items():
        if isinstance(workload, RecordModel):
            _, scale, block, depth, durability, deciding = table[name]
            assert scale == f"1/{round(1 / workload.scale)}"
            assert deciding == workload.deciding
        else:
            _, block, depth, jobs, durability, window, source = table[name]
            assert int(jobs) == workload.jobs
            assert ("pass over the region" in window) == (workload.round == "region")
            assert source
        number, unit = block.split()
        assert int(number) << {"KiB": 10, "MiB": 20}[unit] == workload.bs
        assert int(depth) == workload.qd
        assert durability.strip("`") == ("" if workload.durability == "none" else workload.durability)


def test_each_parameter_of_a_model_stands_on_the_page_of_its_phase():
    models = [workload for workload in OUR_WORKLOADS.values() if isinstance(workload, RecordModel)]
    assert models
    for model in models:
        page = (ROOT / "docs" / "phases" / f"{model.phase}.md").read_text(encoding="utf-8")
        _, _, after = page.partition(f"<!-- parameters {model.name} -->\n")
        table = rows(after.partition("\n\n")[0])
        for parameter in model.all_parameters:
            if parameter.name == "seed":
                continue
            default, text = table.pop(parameter.name)
            scale = parameter.name == "scale"
            assert default == (f"1/{round(1 / model.scale)}" if scale else spell(parameter.default)), model.name
            assert text.startswith(parameter.help)
            assert all(f"`{choice}`" in text for choice in parameter.choices)
        assert not table, model.name


def test_data_paths_are_in_the_reference_and_none_is_promised_too_early():
    assert set(rows(section(REFERENCE, "Data paths"))) == set(OUR_DATAPATHS)
    table = rows(section((ROOT / "README.md").read_text(encoding="utf-8"), "Data paths"))
    assert set(table) >= DESIGNED
    for name, cells in table.items():
        assert cells[-1].startswith("works") == (name in OUR_DATAPATHS), name


def test_media_and_capabilities_are_in_the_reference():
    assert {name for name in MEDIA if f"`{name}`" not in section(REFERENCE, "Media")} == set()
    assert set(rows(section(REFERENCE, "Capabilities"))) == set(CAPABILITIES)


def test_each_gate_has_a_row_with_its_class_and_limits():
    table = rows(GATES)
    assert list(table) == [gate.name for gate in gates.GATES]
    for gate in gates.GATES:
        assert table[gate.name][0] == gate.kind
    for gate, limit in (
        ("device_bytes", f"{impossible.DEVICE_BYTES}"),
        ("littles_law", f"+- {physics.LITTLE_TOLERANCE}"),
        ("depth_achieved", percent(impossible.DEPTH_VOID)),
        ("depth_achieved", percent(impossible.DEVICE_DEPTH)),
        ("open_loop_lag", percent(physics.LATE_SHARE)),
        ("clock_sane", percent(physics.CLOCK_SHARE)),
        ("clock_sane", f"{physics.CLOCK_PPM:.0f} ppm"),
        ("stable", percent(unsettled.STABLE_CI)),
        ("cores_available", percent(unsettled.WAIT_SHARE)),
        ("no_steal", percent(unsettled.STEAL_SHARE)),
        ("tool_bound", percent(warning.DEPTH_TOOL_BOUND)),
        ("enough_io", f"{LEAST_WINDOW_S} s"),
    ):
        assert limit in table[gate][2], gate
    assert f"in {drift.LEAST_WINDOWS} windows or more" in GATES
    assert f"Steps below {percent(drift.LEAST_STEP)}" in GATES
    assert f"fewer than {percent(drift.FALSE_ALARM)} of random orders" in GATES


def percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def test_each_field_of_the_schema_is_explained():
    definitions = schema()["$defs"]
    record = section(REFERENCE, "The record: schema version 1")
    assert set(rows(record)) == set(definitions["cell"]["properties"])
    for name in definitions["cell"]["properties"]:
        part = definitions["cell"]["properties"][name]
        for inner in part.get("properties", {}):
            assert f"`{inner}`" in record, f"{name}.{inner}"
    for inner in (*definitions["latency"]["properties"], *definitions["distribution"]["properties"]):
        assert f"`{inner}`" in record, inner
    assert set(rows(section(REFERENCE, "The run"))) == set(definitions["results"]["properties"])


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    kept = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.strip().replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert there.is_relative_to(ROOT), target
        if anchor:
            assert anchor in _anchors(there.read_text(encoding="utf-8")), target


def test_every_decision_that_is_named_exists():
    files = subprocess.run(
        ["git", "ls-files", "*.py", "*.md", "*.toml", "*.ini", "*.c", "*.h"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    # Without git (a source archive) the pages alone are searched.
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in files if (ROOT / name).is_file()]
    texts += [page.read_text(encoding="utf-8") for page in PAGES]
    named = {name for text in texts for name in re.findall(r"docs/(?:adr/)[\w.-]*\.md", text)}
    assert {name for name in named if not (ROOT / name).exists()} == set()
    numbers = [path.name[:4] for path in sorted((ROOT / "docs/adr").glob("*.md"))]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
    for number in {int(number) for text in texts for number in re.findall(r"\bADR (\d+)\b", text)}:
        assert f"{number:04}" in numbers


def _examples(title: str) -> list[str]:
    how_to = (ROOT / "docs/how-to.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", section(how_to, title), re.DOTALL | re.MULTILINE)


def test_the_example_of_a_data_path_and_a_workload_is_measured(pytester, tmp_path):
    conftest, suite = _examples("A data path and a workload of your own")
    pytester.makeconftest(conftest)
    pytester.makepyfile(test_adapter=suite)
    result = pytester.runpytest_subprocess(
        "-p", "no:codspeed", f"--gpuio-target={tmp_path}", "--gpuio-size=32M", "--gpuio-max-time=100ms",
        "--gpuio-cache=hot", "--gpuio-datapath=io_uring_plain", "-rs", timeout=120,
    )  # fmt: skip
    outcomes = result.parseoutcomes()
    record = json.loads((pytester.path / "gpuio-results.json").read_text())
    (tmp_path / "gpuio-read.dat").unlink(missing_ok=True)
    if outcomes.get("skipped"):
        pytest.skip(record["skips"][0]["reason"])
    result.assert_outcomes(passed=1)
    (cell,) = record["cells"]
    assert cell["axes"]["workload"] == "inference/adapter_load"
    assert cell["axes"]["bs"] == 256 << 10
    assert cell["effective"]["datapath"] == "io_uring_plain"
    assert "fixed_buffers" not in cell["effective"]["knobs"]


def test_the_example_suite_becomes_the_cells_it_names(pytester):
    (suite,) = _examples("Write a suite of your own")
    pytester.makepyfile(test_mine=suite)
    result = pytester.runpytest_subprocess("-p", "no:codspeed", "--collect-only", "-q")
    found = re.findall(r"^test_mine\.py::\S+", result.stdout.str(), re.MULTILINE)
    assert len(found) == 4, found


def test_the_readme_suite_runs_on_every_data_path(pytester):
    (suite,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    pytester.makepyfile(test_five_lines=suite)
    result = pytester.runpytest_subprocess("-p", "no:codspeed", "--collect-only", "-q")
    for path in ("psync", "libaio", "io_uring"):
        result.stdout.re_match_lines([rf"test_five_lines\.py::test_kv_fetch\[{path}-.*"])
