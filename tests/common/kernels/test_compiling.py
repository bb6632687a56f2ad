import subprocess
import sys

import numpy as np
import pytest

from fedboard.common.kernels.backends import has_compiler

pytestmark = pytest.mark.slow

if not has_compiler():
    pytest.skip("numba is not installed", allow_module_level=True)

LOAD = """
from fedboard.common.kernels.compiled import ridge
hits, misses = ridge._solve_rows.stats.cache_hits, ridge._solve_rows.stats.cache_misses
print(sum(hits.values()), sum(misses.values()))
"""


def test_second_process_finds_the_compiled_kernel_on_disk():
    from fedboard.common.kernels.compiled import ridge  # noqa: F401  compiled, or read, here

    result = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True)

    assert result.stdout.split() == ["1", "0"]


def test_python_is_refused_what_is_compiled_into_others_only():
    from fedboard.common.kernels.compiled.cholesky import factor

    with pytest.raises(TypeError, match="factor is a part of compiled functions"):
        factor(np.eye(16, dtype=np.float32).reshape(-1), 16, 16, np.zeros(256, np.float32))
