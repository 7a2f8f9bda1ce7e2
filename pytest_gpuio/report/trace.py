"""Text of what ``gpuio trace`` says."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pytest_gpuio.report import numbers

_WIDTH: Final = 120
_HEAD: Final = 20


def info_text(found: Mapping[str, Any]) -> str:
    """A trace: how much, how long, how distributed.

    Args:
        found: of :func:`pytest_gpuio.phases.traces.summary.summary`.

    Returns:
        Lines that end in a newline.
    """
    lines = [f"{found['path']} ({found['format']}, a trace of {_KINDS[found['kind']]})", ""]
    lines += _facts(_times(found))
    lines += _facts(_requests(found) if found["kind"] == "request" else _blocks(found))
    return _joined([*lines, *_notes(found["notes"])])


def simulation_text(found: Mapping[str, Any]) -> str:
    """Cache tiers: where blocks are found, and what is left for storage.

    Args:
        found: of :func:`pytest_gpuio.phases.kv_cache.summary.summary`.

    Returns:
        Lines that end in a newline.
    """
    lines = [f"{found['path']} ({found['format']}) through cache tiers, over {_seconds(found['span_s'])}", ""]
    lines += _facts(_tiers(found))
    lines += ["", "storage", *_facts(_storage(found))]
    if found["sweep"]:
        lines += ["", "other sizes of HBM and DRAM together"]
        lines += [f"  {'memory':>10}  {'pages':>10}  {'hits from storage':>17}  {'read:written':>12}  {'read GB/s':>9}"]
        lines += [
            f"  {_short(row['memory_bytes']):>10}  {row['pages']:>10,}  {numbers.percent(row['storage_share']):>17}  "
            f"{numbers.rate(row['read_per_written']):>12}  {_gb_s(row['read_bytes_per_s']):>9}"
            for row in found["sweep"]
        ]
    if found["projection"] is not None:
        lines += ["", *_projection(found["projection"])]
    return _joined([*lines, *_notes(found["notes"])])


def converted_text(done: Mapping[str, Any]) -> str:
    """What was written.

    Args:
        done: ``path``, ``to``, ``lines``, ``bytes``, ``duration_s`` and ``notes``.

    Returns:
        Lines that end in a newline.
    """
    lasts = "" if done["duration_s"] is None else f", which lasts {_seconds(done['duration_s'])}"
    head = f"{done['path']}: {done['to']} of {done['lines']:,} lines, {numbers.exact_bytes(done['bytes'])}{lasts}"
    return _joined([head, *_notes(done["notes"])])


def projection_text(workload: str, found: Mapping[str, Any]) -> str:
    """One line about a replay that is about to run.

    Args:
        workload: with its parameters.
        found: of :func:`pytest_gpuio.measure.records.project`.
    """
    moved = [
        f"{found[f'{op}s']:,} {op}s of {numbers.si(found[f'{op}_bytes'])}B"
        for op in ("read", "write")
        if found[f"{op}s"]
    ]
    text = f"gpuio: {workload} replays {' and '.join(moved)} on {numbers.si(found['file_bytes'])}B laid out for it; "
    if found["span_s"] is None:
        return text + "a pass lasts as long as the storage needs"
    text += f"its times span {_seconds(found['span_s'])}"
    if found["pass_groups"] == found["groups"]:
        return text + ", and a pass replays all of it"
    return text + (
        f", of which a pass replays the first {_seconds(found['pass_s'])} ({found['pass_groups']:,} of "
        f"{found['groups']:,} groups; all with --gpuio-max-time={max(round(found['max_time']), 1)}s, or use speed=)"
    )


_KINDS: Final = {"request": "requests", "block": "I/O"}


def _times(found: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    count = found["records"]
    if not found["timed"]:
        yield _KINDS[found["kind"]], f"{count:,}, without times: a replay lasts as long as the storage needs"
        return
    yield _KINDS[found["kind"]], f"{count:,} over {_seconds(found['span_s'])}"
    yield "a replay lasts", f"{_seconds(found['projected_s'])} at speed {found['speed']:g} (--speed)"
    cv = found["interarrival_cv"]
    spread = "" if cv is None else f"; coefficient of variation of the gaps {cv:.2f} (Poisson has 1)"
    if found["rate_per_s"] is not None:
        yield "mean rate", f"{numbers.si(found['rate_per_s'])} a second{spread}"


def _requests(found: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    if found["quantum_s"] is not None:
        yield "stamps", f"in steps of {found['quantum_s']:g} s: a replay spreads arrivals over each step (--stamps)"
    for key, head in (("input_tokens", "input tokens"), ("output_tokens", "output tokens")):
        yield head, _distribution(found[key])
    blocks = found["blocks"]
    if blocks is None:
        yield "prefix blocks", "not told: nothing can be found again in a cache"
        return
    yield (
        "prefix blocks",
        f"{blocks['uses']:,} of {blocks['tokens']} tokens, {blocks['unique']:,} different ones",
    )
    yield (
        "prefix hits",
        f"{blocks['hits']:,} ({numbers.percent(blocks['hit_ratio'])}) in a cache that keeps everything; "
        f"{numbers.percent(blocks['requests_with_hits'])} of the requests hit more than one block",
    )


def _blocks(found: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    yield "files", f"{found['files']:,}, up to {numbers.exact_bytes(found['extent_bytes'])} together"
    for name, told in found["operations"].items():
        if told["count"]:
            moved = f", {numbers.exact_bytes(told['bytes'])}" if told["bytes"] else ""
            yield f"{name}s", f"{told['count']:,}{moved}"
    if found["request_bytes"] is not None:
        yield "bytes of each", _distribution(found["request_bytes"])
    yield "sequential", numbers.percent(found["sequential_share"])
    for tier, told in (found["tiers"] or {}).items():
        yield (
            tier,
            ", ".join(f"{part['count']:,} {name}s of {_short(part['bytes'])}" for name, part in told.items()),
        )


def _tiers(found: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    page, pages, tiers = found["page"], found["pages"], found["tiers"]
    yield "a token", numbers.exact_bytes(found["token_bytes"])
    yield "a page", f"{page['tokens']} tokens, {numbers.exact_bytes(page['bytes'])}"
    kept = "everything" if tiers["storage_pages"] is None else f"{tiers['storage_pages']:,} pages"
    yield "tiers", f"HBM {tiers['hbm_pages']:,} pages, DRAM {tiers['dram_pages']:,} pages, storage keeps {kept}"
    yield "pages used", f"{pages['uses']:,} by {found['requests']:,} requests"
    yield "found", f"{pages['hits']:,} ({numbers.percent(pages['hit_ratio'])})"
    for name, head in (("hbm", "in HBM"), ("dram", "in DRAM"), ("storage", "in storage")):
        share = pages[name] / pages["hits"] if pages["hits"] else 0.0
        yield f"  {head}", f"{pages[name]:,} ({numbers.percent(share)} of the hits)"
    yield "computed", f"{pages['computed']:,}; {pages['written']:,} written through to storage"
    prefill = found["prefill"]
    yield (
        "prefill",
        f"{prefill['tokens_per_s']:,.0f} tokens/s: {numbers.duration(prefill['mean_ns'])} a request on average; "
        f"loading beats computing above {_gb_s(prefill['break_even_bytes_per_s'])} GB/s",
    )


def _storage(found: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    told = found["storage"]
    order = ", layer by layer" if found["layer_wise"] else ""
    yield "I/O", f"{told['records']:,} requests of {found['granularity']} size{order}"
    yield "read", f"{numbers.exact_bytes(told['bytes_read'])} by {told['fetching_requests']:,} requests"
    yield "written", f"{numbers.exact_bytes(told['bytes_written'])} by {told['offloading_requests']:,} requests"
    yield "read : written", numbers.rate(told["read_per_written"])
    yield (
        "mean rate",
        f"{_gb_s(told['read_bytes_per_s'])} GB/s read, {_gb_s(told['written_bytes_per_s'])} GB/s written",
    )


def _projection(told: Mapping[str, Any]) -> list[str]:
    fetch = told["fetch"]
    over = ", ".join(f"{numbers.percent(share)} over {limit} ms" for limit, share in fetch["over_ms"].items())
    return [
        f"projected, not measured: reads on one queue of {told['bytes_per_s'] / 1e9:g} GB/s and "
        f"{numbers.duration(told['latency_s'] * 1e9)} latency",
        *_facts(
            [
                (
                    "group completion",
                    f"p50 {numbers.duration(fetch['p50_ns'])}, p95 {numbers.duration(fetch['p95_ns'])}, p99 "
                    f"{numbers.duration(fetch['p99_ns'])}, of {fetch['groups']:,} requests that read",
                ),
                ("of all requests", over),
                ("share of TTFT", f"{numbers.percent(fetch['ttft_share'])} (the rest is prefill)"),
            ]
        ),
    ]


def _facts(facts: Iterable[tuple[str, str]]) -> list[str]:
    lines = []
    for head, text in facts:
        lines += textwrap.wrap(
            text, _WIDTH, initial_indent=f"  {head:<{_HEAD - 2}}", subsequent_indent=" " * _HEAD,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    return lines


def _notes(notes: Iterable[str]) -> list[str]:
    lines = [
        line
        for note in notes
        for line in textwrap.wrap(
            note, _WIDTH, initial_indent="  - ", subsequent_indent="    ", break_long_words=False,
            break_on_hyphens=False,
        )
    ]  # fmt: skip
    return ["", "worth knowing", *lines] if lines else []


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _distribution(told: Mapping[str, int]) -> str:
    quantiles = ", ".join(f"{name} {value:,}" for name, value in told.items() if name != "total")
    return f"{quantiles}; {told['total']:,} in all"


def _seconds(value: float) -> str:
    """Seconds, and hours where that is easier: ``3,537.0 s (58 min 57 s)``."""
    whole = round(value)
    hours, minutes, seconds = whole // 3600, whole // 60 % 60, whole % 60
    if whole < 120:
        return f"{value:,.4g} s"
    return f"{value:,.1f} s ({f'{hours:,} h ' if hours else ''}{minutes} min {seconds} s)"


def _gb_s(value: float | None) -> str:
    return numbers.rate(None if value is None else value / 1e9)


def _short(value: int) -> str:
    told = numbers.exact_bytes(value)
    return told.partition("(")[2].rstrip(")") or told
