"""Data paths: one file each, saying what it needs, how it sets the engine and how the path really taken is proved."""

from pytest_gpuio.datapaths.base import DataPath, Evidence, Proof
from pytest_gpuio.datapaths.registry import DATAPATHS, get, register

__all__ = ["DATAPATHS", "DataPath", "Evidence", "Proof", "get", "register"]
