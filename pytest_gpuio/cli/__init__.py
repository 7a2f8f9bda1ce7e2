"""The ``gpuio`` command; one module per subcommand."""

from __future__ import annotations

from pytest_gpuio.cli.command import main

__all__ = ["main"]
