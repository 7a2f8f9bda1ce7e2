"""Options of ``gpuio trace``, and what follows from them."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any, Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import parse_duration, parse_size
from pytest_gpuio.phases import models, traces
from pytest_gpuio.phases.kv_cache import GRANULARITIES, Layout, Prefill
from pytest_gpuio.phases.kv_cache.prefill import H100_FLOPS, USUAL_MFU
from pytest_gpuio.phases.models.architecture import DTYPES
from pytest_gpuio.phases.traces import Reading, writers

_TIERS: Final = ("hbm", "dram", "storage")


def add_options(parser: argparse.ArgumentParser, sweep: str) -> None:
    """Adds all options, by what they are about.

    Args:
        parser: to add to.
        sweep: default of ``--sweep``.
    """
    reading = parser.add_argument_group("reading")
    reading.add_argument("--format", metavar="NAME", help="insist on a format instead of knowing it by content")
    reading.add_argument("--time-unit", metavar="UNIT", help="unit of timestamps: s, ms, us, ns; default as documented")
    reading.add_argument(
        "--block-tokens", metavar="N", type=int, help="tokens of a prefix block; default as documented"
    )
    reading.add_argument(
        "--wait", choices=("ms-since-start", "us-since-previous"),
        help="what `wait` of version 2 iologs means: as fio 3.33 acts on it (default), or as its manual says",
    )  # fmt: skip
    reading.add_argument("--event", choices=("D", "Q"), help="blktrace events that count: issued (default) or queued")
    reading.add_argument("--skip-malformed", action="store_true", help="leave malformed lines out instead of refusing")

    part = parser.add_argument_group("which part, and how fast")
    part.add_argument("--from", metavar="TIME", dest="start", help="leave out what is earlier: 90, 90s, 15m, 1h; or 0")
    part.add_argument("--for", metavar="TIME", dest="duration", help="take no more than this long")
    part.add_argument("--first", metavar="N", type=int, help="take no more than N requests or operations")
    part.add_argument("--speed", metavar="X", type=float, default=1.0, help="replay X times as fast; default 1")
    part.add_argument(
        "--stamps", choices=("spread", "keep"), default="spread",
        help="arrivals of traces that stamp in steps (Mooncake conversation: 3 s): spread over the step (default), or "
        "all at once, which is a stress test",
    )  # fmt: skip
    part.add_argument("--seed", metavar="N", type=int, help="of everything drawn at random")

    cache = parser.add_argument_group("cache, for traces of requests")
    cache.add_argument("--model", metavar="NAME", help="a model of `gpuio model list`, or FILE.toml:NAME")
    cache.add_argument("--kv-dtype", choices=tuple(DTYPES), default="fp16", help="of the cache; default %(default)s")
    cache.add_argument(
        "--tp", metavar="RANKS", type=int, default=1, help="tensor-parallel ranks; one rank's I/O is shown"
    )
    cache.add_argument("--bytes-per-token", metavar="N", type=int, help="of the cache, instead of a model")
    cache.add_argument("--hbm", metavar="SIZE", default="0", help="LRU tier in GPU memory; default 0")
    cache.add_argument("--dram", metavar="SIZE", default="0", help="LRU tier in host memory; default 0")
    cache.add_argument("--storage", metavar="SIZE", help="LRU store below them; default: it keeps everything")
    cache.add_argument(
        "--granularity", choices=tuple(GRANULARITIES), default="page512", help="pieces of I/O; default %(default)s"
    )
    cache.add_argument("--layer-wise", action="store_true", help="move pieces layer by layer")
    cache.add_argument(
        "--placing", choices=("append", "random"), default="append", help="of new pages; default %(default)s"
    )
    cache.add_argument("--capacity", metavar="SIZE", help="of the file; its places are used again when it is full")
    cache.add_argument("--fsync", action="store_true", help="make each request's writes durable at once")
    cache.add_argument(
        "--prefill", metavar="TOKENS/S", type=float,
        help=f"computing new tokens; default of a model: {100 * USUAL_MFU:.0f} %% of {H100_FLOPS / 1e12:g} TFLOPS",
    )  # fmt: skip

    show = parser.add_argument_group("simulate")
    show.add_argument("--sweep", metavar="SIZES", default=sweep, help="memory sizes to compare; default %(default)s")
    show.add_argument("--device", metavar="GB/S", type=float, help="project fetches on storage of this speed")
    show.add_argument("--latency-us", metavar="US", type=float, default=100.0, help="its latency; default %(default)g")

    write = parser.add_argument_group("convert")
    write.add_argument("--to", metavar="FORMAT", choices=tuple(writers.WRITERS), help="one of: %(choices)s")
    write.add_argument(
        "--filename", metavar="PATH", help="file that fio shall use; the trace's files come to lie in it"
    )
    write.add_argument("--iodepth", metavar="N", type=int, default=32, help="of a fio job; default %(default)s")


def reading_of(arguments: argparse.Namespace) -> tuple[Reading, float | None, float | None]:
    """How to read, and the part of time to take after it (generators take it while reading).

    Raises:
        ConfigError: a malformed time.
    """
    start = _time(arguments.start, "--from")
    duration = None if arguments.duration is None else parse_duration(arguments.duration, what="--for")
    reading = Reading(
        time_unit=arguments.time_unit,
        block_tokens=arguments.block_tokens,
        wait=arguments.wait,
        event=arguments.event,
    )
    entry = traces.detect(arguments.file) if arguments.format is None else traces.get(arguments.format)
    if not entry.generator:
        return reading, start, duration
    return replace(reading, seed=arguments.seed, start_s=start, duration_s=duration), None, None


def layout_of(arguments: argparse.Namespace) -> Layout:
    """Pieces and places of the cache.

    Raises:
        ConfigError: neither a model nor bytes per token, or both.
    """
    if (arguments.model is None) == (arguments.bytes_per_token is None):
        raise ConfigError(
            "how large is a token's cache? Name --model (`gpuio model list`) or --bytes-per-token, not both."
        )
    if arguments.model is not None:
        geometry = models.kv_geometry(models.find(arguments.model), arguments.kv_dtype, arguments.tp)
    elif 1 <= arguments.bytes_per_token <= 1 << 40:
        geometry = models.KvGeometry(1, 1, arguments.bytes_per_token)
    else:
        raise ConfigError(f"--bytes-per-token {arguments.bytes_per_token:,} is outside 1 .. {1 << 40:,}.")
    return Layout(
        geometry,
        arguments.granularity,
        layer_wise=arguments.layer_wise,
        placing=arguments.placing,
        capacity=None if arguments.capacity is None else parse_size(arguments.capacity, what="--capacity"),
        fsync=arguments.fsync,
        seed=arguments.seed or 1,
    )


def prefill_of(arguments: argparse.Namespace) -> Prefill:
    """Speed of computing new tokens.

    Raises:
        ConfigError: it is not above 0, or there is no model to derive it from.
    """
    if arguments.prefill is not None:
        return Prefill(arguments.prefill)
    if arguments.model is None:
        raise ConfigError("how fast are new tokens computed? Bytes per token do not say: name --prefill TOKENS/S.")
    return Prefill.of_model(models.active_parameters(models.find(arguments.model)), gpus=arguments.tp)


def sizes_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Capacities of the tiers in bytes.

    Raises:
        ConfigError: a malformed size.
    """
    told = {tier: getattr(arguments, tier) for tier in _TIERS}
    return {
        f"{tier}_bytes": 0 if text == "0" else parse_size(text, what=f"--{tier}")
        for tier, text in told.items()
        if text is not None
    }


def _time(text: str | None, what: str) -> float | None:
    return None if text is None else 0.0 if text.strip() == "0" else parse_duration(text, what=what)
