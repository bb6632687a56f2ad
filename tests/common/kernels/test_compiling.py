import subprocess
import sys

import pytest

from fedboard.common.kernels.backends import has_compiler

pytestmark = pytest.mark.slow

if not has_compiler():
    pytest.skip("numba is not installed", allow_module_level=True)

LOAD = """
from fedboard.common.kernels.blocked import ridge
hits, misses = ridge._solve_rows.stats.cache_hits, ridge._solve_rows.stats.cache_misses
print(sum(hits.values()), sum(misses.values()))
"""


def test_second_process_finds_the_compiled_kernel_on_disk():
    from fedboard.common.kernels.blocked import ridge  # noqa: F401  compiled, or read, here

    result = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True)

    assert result.stdout.split() == ["1", "0"]
