"""Shares of the noise on the coarsest lattice: the right ones pass, truncated ones do not."""

import numpy as np
import pytest

from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.arrays import IntArray
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.privacy.releases.noise_shares import NoiseShares
from fedboard.simulations.audit.audit import stream_findings
from fedboard.simulations.audit.noise_check import lattice_test
from tests.common.algorithms.conftest import a_task
from tests.simulations.audit.conftest import configuration, entered

TASK: AdaDpals = a_task()
CHECK = "shares of the noise have their size where it is hardest"


@pytest.mark.parametrize("least", [1, 7])
def test_rounded_shares_have_their_size_and_truncated_or_larger_ones_do_not(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, draw = TASK.plan()[1][0].release, NoiseShares.draw

    def judged() -> bool:
        return lattice_test(NoiseShares(least=least), release, SeededNoise(1)).passed

    def truncated(*given: object, **places: int) -> IntArray:
        """Half a unit nearer to zero: what truncation makes of rounded numbers, on average."""
        drawn = draw(*given, **places)  # type: ignore[arg-type]
        return drawn - np.sign(drawn) * np.random.default_rng(0).integers(0, 2, drawn.shape)

    assert judged()
    monkeypatch.setattr(NoiseShares, "draw", truncated)
    assert not judged()
    monkeypatch.setattr(NoiseShares, "draw", lambda *given, **places: np.rint(1.1 * draw(*given, **places)))
    assert not judged()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["local", "distributed-dp", "secure-sum"])
def test_an_audit_looks_where_clients_draw_the_noise(protocol: str) -> None:
    subject, _ = entered(configuration(run={"kernels": "compiled", "protocol": protocol}))

    found = [finding for finding in stream_findings(subject, 0) if finding.check == CHECK]

    assert [finding.passed for finding in found] == ([] if protocol == "secure-sum" else [True])
