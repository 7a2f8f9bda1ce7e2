"""``python -m pytest_gpuio.cli``: the ``gpuio`` command where its script is not on PATH."""

from __future__ import annotations

import sys

from pytest_gpuio.cli.command import main

if __name__ == "__main__":
    sys.exit(main())
