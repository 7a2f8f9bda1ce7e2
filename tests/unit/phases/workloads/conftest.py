"""Builds the records of a model by name, and looks at them."""

import numpy as np
import pytest

from pytest_gpuio.phases.workloads import MODELS


@pytest.fixture
def build():
    """Records of a model with some parameters; scale 1 unless another is given."""
    models = {model.name.partition("/")[2]: model for model in MODELS}

    def build(name, **values):
        return models[name].with_values({"scale": 1.0} | values).records()

    return build


@pytest.fixture
def tiles():
    """Whether records cover each file from its first byte to its last, once."""

    def tiles(records):
        moves = records.length > 0
        order = np.lexsort((records.offset[moves], records.file[moves]))
        file, offset, length = (getattr(records, name)[moves][order] for name in ("file", "offset", "length"))
        starts = np.concatenate([[True], file[1:] != file[:-1]])
        expected = np.where(starts, 0, np.concatenate([[0], (offset + length)[:-1]]))
        ends = np.concatenate([starts[1:], [True]])
        complete = np.array_equal((offset + length)[ends], records.files.sizes[file[ends]])
        return np.array_equal(offset, expected) and complete and len(np.unique(file)) == len(records.files)

    return tiles
