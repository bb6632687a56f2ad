"""Small sparse problems that hold the cases which break kernels: empty rows, one rating, long and short rows."""

from dataclasses import dataclass

import numpy as np
import pytest

from fedboard.common.arrays import IndexArray, IntArray
from fedboard.common.kernels import BACKENDS
from fedboard.common.kernels.backends import has_compiler, implementation

COMPILED = pytest.mark.skipif(not has_compiler(), reason="numba is not installed")


@pytest.fixture(params=[name if name == "numpy" else pytest.param(name, marks=COMPILED) for name in BACKENDS])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param != "numpy":  # what is compiled is tested, even where few numbers are drawn
        implementation(request.param, "noise")
    return str(request.param)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Which columns each row has, in compressed rows."""

    indptr: IntArray
    columns: IndexArray
    n_columns: int

    @property
    def n_rows(self) -> int:
        return self.indptr.size - 1


@pytest.fixture(scope="session")
def pattern() -> Pattern:
    rng = np.random.default_rng(3)
    n_columns = 700
    lengths = np.concatenate([[0, 1, 2, 0, 600], rng.integers(0, 90, 40), [33, 300, 0]])
    columns = [np.sort(rng.choice(n_columns, length, replace=False)) for length in lengths]
    return Pattern(
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        columns=np.concatenate(columns).astype(np.int32),
        n_columns=n_columns,
    )
