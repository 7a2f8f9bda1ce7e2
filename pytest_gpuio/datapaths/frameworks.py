"""``torch_save``, ``torch_dcp``, ``safetensors``: an application's own framework saves or loads whole files."""

from __future__ import annotations

from collections.abc import Callable

from pytest_gpuio.datapaths.base import DataPath, Evidence, Proof


def _prove(name: str) -> Callable[[Evidence], Proof]:
    def prove(evidence: Evidence) -> Proof:
        sentences = (
            f"calls of {evidence.engine}",
            "buffered: through the page cache, as the framework opens its files",
        )
        return Proof(name if evidence.engine == name else None, sentences)

    return prove


def _framework(name: str, title: str, capability: str) -> DataPath:
    return DataPath(
        name=name,
        title=title,
        engine=name,
        needs=("engine", capability),
        family=capability,
        # The framework decides how many requests are on their way: the depth means nothing to it.
        synchronous=True,
        caches=("cold", "hot"),
        destinations=("host",),
        by_name=True,
        framework=True,
        prove=_prove(name),
    )


TORCH_SAVE = _framework("torch_save", "torch.save and torch.load, a file at a time (reference)", "torch")
TORCH_DCP = _framework("torch_dcp", "PyTorch's distributed checkpoint, a folder a rank (reference)", "torch")
SAFETENSORS = _framework("safetensors", "safetensors' save_file and load_file (reference)", "safetensors")
FRAMEWORK_PATHS = (TORCH_SAVE, TORCH_DCP, SAFETENSORS)
