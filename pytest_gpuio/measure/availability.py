"""What a machine and a target lack for a cell, asked of children and remembered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.capabilities import CAPABILITIES, Resolver
from pytest_gpuio.core.cell import Cell
from pytest_gpuio.core.errors import CapabilityMissing, ChildDied
from pytest_gpuio.datapaths import DataPath
from pytest_gpuio.datapaths.base import CuFileMode
from pytest_gpuio.isolation import Children
from pytest_gpuio.measure.effort import Effort
from pytest_gpuio.measure.gpu_placement import ordered_gpus
from pytest_gpuio.measure.prepare import choose_gpus
from pytest_gpuio.media import Medium

#: The first one waits for imports too, which take 20 s on a slow machine with cold files (tried under emulation).
_PROBE_DEADLINE_S = 60.0
#: What a page-cache mode needs of the target.
_NEEDS_OF_CACHE: Final[Mapping[str, tuple[str, ...]]] = {"direct": ("o_direct",), "cold": ("cold_cache",)}


class Availability:
    """What cells lack; every capability is probed once.

    Args:
        children: of the run; a probe that does not survive costs its child only.
        effort: of every cell, with the GPUs that were asked for.
        targets: the path of each target name. media: the medium of each.
    """

    def __init__(
        self, children: Children, effort: Effort, targets: Mapping[str, Path], media: Mapping[str, Medium]
    ) -> None:
        self._children = children
        self._effort = effort
        self._targets = targets
        self._media = media
        self._capabilities = Resolver(self._probe)
        self._gpus: tuple[Mapping[str, Any], ...] | None = None

    def missing(self, cell: Cell, path: DataPath) -> str | None:
        """The first capability the cell lacks as ``needs NAME: sentence``, or None."""
        for name in self.needs(cell, path):
            reason = self._capabilities.reason(name, str(self._targets[cell.target]))
            if reason is not None:
                return f"needs {name}: {reason}"
        return self._too_few_gpus(cell)

    def capability(self, name: str, target: str | None = None) -> str | None:
        """None when the machine has it, else why not."""
        return self._capabilities.reason(name, str(self._targets[target]) if target else None)

    @staticmethod
    def needs(cell: Cell, path: DataPath) -> tuple[str, ...]:
        """Names of the capabilities a cell needs, in the order they are checked."""
        needs = path.needs if cell.destination == "host" or "cuda" in path.needs else ("engine", "cuda", *path.needs)
        if not path.file:
            return needs
        if path.moves_data and not path.mapped and "nvme_passthrough" not in needs:
            needs += ("file_io",)
        # A mapping that needs no page cache opens nothing with O_DIRECT.
        if not path.moves_data or (path.mapped and cell.cache == "direct"):
            return needs
        return (*needs, *_NEEDS_OF_CACHE.get(cell.cache, ()))

    def gpus(self) -> Sequence[Mapping[str, Any]]:
        """The GPUs there are, as a child sees them, in the order of their ordinals; empty when there is none."""
        if self._gpus is None:
            self._gpus = ()
            if self.capability("cuda") is None:
                self._gpus = tuple(self._children.get("probe").request("gpus", {}, deadline_s=_PROBE_DEADLINE_S))
        return self._gpus

    def cufile(self, mode: CuFileMode, target: str | None) -> Mapping[str, Any]:
        """CuFile's driver as it opens in the child of that mode, and whether it takes the target; see there.

        Args:
            mode: ``strict`` or ``compat``.
            target: name of a target; None = the driver alone.
        """
        family = "gds" if mode == "strict" else "gds_compat"
        nothing: dict[str, Any] = {"facts": None, "takes_target": None, "target_reason": None}
        reason = self.capability("cuda")
        if reason is not None:
            return nothing | {"reason": reason}
        params = {"mode": mode, "target": str(self._targets[target]) if target else None}
        try:
            found = self._children.get(family).request("cufile", params, deadline_s=_PROBE_DEADLINE_S)
        except ChildDied as error:
            self._children.replace(family)
            return nothing | {"reason": f"opening cuFile did not survive: {error}"}
        return dict(found)

    def effort_for(self, cell: Cell) -> Effort:
        """The effort with the GPUs that the cell's target is near to or far from, where that was asked for.

        Raises:
            CapabilityMissing: distances are not known.
        """
        effort = self._effort
        if not effort.gpu_order or not cell.gpus:
            return effort
        bus_ids = [str(gpu["bus_id"]) for gpu in self.gpus()]
        return replace(effort, gpus=ordered_gpus(effort.gpu_order, bus_ids, self._media[cell.target].devices))

    def _too_few_gpus(self, cell: Cell) -> str | None:
        if not cell.gpus:
            return None
        try:
            allowed = self.effort_for(cell).gpus
        except CapabilityMissing as error:
            return str(error)
        if self._effort.gpu_order and len(allowed) < cell.gpus:
            return (
                f"--gpuio-gpu={self._effort.gpu_order}: {len(allowed)} of the GPUs are, and the cell has {cell.gpus}."
            )
        there, last = len(self.gpus()), max(choose_gpus(cell, allowed))
        if last < there:
            return None
        return (
            f"needs cuda: GPU {last} is wanted (numbered from 0) and the CUDA driver shows {there}: lower "
            "--gpuio-gpus, or see --gpuio-gpu and CUDA_VISIBLE_DEVICES"
        )

    def _probe(self, name: str, target: str | None) -> str | None:
        params, family = {"name": name, "target": target}, CAPABILITIES[name].family
        try:
            answer = self._children.get(family).request("probe", params, deadline_s=CAPABILITIES[name].deadline_s)
        except ChildDied as error:
            self._children.replace(family)
            return f"the probe of {name} did not survive: {error}"
        return None if answer is None else str(answer)
