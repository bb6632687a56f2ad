"""Linear algebra of a round has one thread: boards are the same however many cores a machine has."""

from pathlib import Path
from threading import Barrier, Thread

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from fedboard.common.errors import InputError
from fedboard.common.kernels import backends
from fedboard.common.kernels.blas_threads import one_blas_thread_here
from fedboard.simulations.config import parse_config
from fedboard.simulations.simulate import simulate


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


MANY_ITEMS = "synthetic:users=2000,items=20000,mean=15"
"""OpenBLAS shares an inner product of more than 10 000 numbers among its threads."""


def threads() -> int:
    """The most of any library: some were built for one thread, and stay with it."""
    return max(info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas")


@pytest.mark.slow
def test_the_board_does_not_depend_on_the_threads_of_linear_algebra(tmp_path: Path) -> None:
    config = parse_config(
        {
            "algorithm": "residual",
            "data": {"source": MANY_ITEMS},
            "settings": {"rank": 2, "rounds": 1},
            "run": {"baselines": False, "evaluate_rounds": False, "streamed": False},
        }
    )
    digests = set()
    for number in (1, 3):
        with threadpool_limits(limits=number, user_api="blas"):
            done = simulate(config, tmp_path / str(number), report=False)
        digests.add(done.board.digest)

    assert len(digests) == 1


def test_there_is_one_thread_meanwhile_and_as_many_as_before_afterwards() -> None:
    with threadpool_limits(limits=3, user_api="blas"):
        with one_blas_thread_here():
            assert threads() == 1
            with one_blas_thread_here():
                assert threads() == 1
            assert threads() == 1
        assert threads() == 3


def test_it_ends_with_an_error_too() -> None:
    with threadpool_limits(limits=3, user_api="blas"):
        with pytest.raises(ZeroDivisionError), one_blas_thread_here():
            _ = 1 / 0

        assert threads() == 3


def test_threads_that_come_and_go_end_with_what_there_was() -> None:
    barrier = Barrier(4)

    def in_and_out() -> None:
        for _ in range(20):
            barrier.wait(timeout=60)
            with one_blas_thread_here():
                seen.append(threads())

    seen: list[int] = []
    with threadpool_limits(limits=3, user_api="blas"):
        others = [Thread(target=in_and_out) for _ in range(barrier.parties)]
        for other in others:
            other.start()
        for other in others:
            other.join()

        assert threads() == 3
    assert len(seen) == 80
    assert set(seen) == {1}
