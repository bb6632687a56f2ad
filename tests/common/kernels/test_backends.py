import pytest

from fedboard.common.errors import InputError
from fedboard.common.kernels import backends


@pytest.fixture
def without_compiler(monkeypatch):
    monkeypatch.setattr(backends, "has_compiler", lambda: False)


@pytest.mark.usefixtures("without_compiler")
def test_compiled_backend_without_numba_says_what_to_install():
    with pytest.raises(InputError, match=r"needs numba.*fedboard\[sim\]"):
        backends.implementation("compiled", "ridge")


@pytest.mark.usefixtures("without_compiler")
def test_without_numba_the_choice_is_numpy():
    assert backends.choose_backend(64, 10_000_000) == "numpy"


def test_choice_goes_up_with_the_work():
    if not backends.has_compiler():
        pytest.skip("numba is not installed")

    chosen = [backends.choose_backend(32, n_ratings) for n_ratings in (100, 100_000, 10_000_000)]

    assert chosen == ["numpy", "numpy", "compiled"]
