"""How many rounds came to something: a statement of the certificate, within the plan and under its digest."""

from dataclasses import replace

import pytest

from fedboard.common.certificate import Certificate, certify
from fedboard.common.certificate.checks import RoundsMade
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.releases.noise import SecureNoise
from tests.common.privacy.commitments import planned
from tests.common.releases import a_release


def certified(rounds: RoundsMade | None) -> Certificate:
    release = a_release(
        name="round",
        rows=20,
        width=6,
        grid_step=2.0**-38,
        l2_bound=2**38,
        same_sign=True,
        noise_multiplier=9.0,
    )
    events = [{**release.event(), **SecureNoise().describe()}]
    return certify(
        events, commitment=planned(events), trust=(), assumptions=(), dataset="made up", rounds=rounds
    )


def failed(certificate: Certificate) -> list[str]:
    return [finding.check for finding in certificate.verify() if not finding.passed]


def test_a_certificate_says_how_many_rounds_were_lost() -> None:
    certificate = certified(RoundsMade(planned=7, made=3, lost=2))

    assert certificate.holds
    assert "Of 7 planned rounds 3 were made, 2 lost with their budget, and 2 are still to come." in (
        certificate.statements
    )
    assert Certificate.from_json(certificate.to_json()) == certificate


def test_where_nobody_counted_nothing_is_said() -> None:
    certificate = certified(None)

    assert certificate.holds
    assert not any("planned rounds" in statement for statement in certificate.statements)


def test_a_lost_round_that_is_counted_as_made_afterwards_shows() -> None:
    certificate = certified(RoundsMade(planned=7, made=3, lost=2))

    better = replace(certificate, rounds=RoundsMade(planned=7, made=5, lost=0))

    assert {"statements", "digest"} <= set(failed(better))


def test_an_older_format_has_no_such_field() -> None:
    certificate = certified(RoundsMade(planned=7, made=3, lost=2))

    assert "format" in failed(replace(certificate, format=3))


@pytest.mark.parametrize(
    "rounds",
    [
        RoundsMade(planned=4, made=3, lost=2),
        RoundsMade(planned=4, made=-1, lost=2),
        RoundsMade(planned=4, made=1, lost=-1),
    ],
)
def test_numbers_that_cannot_be_are_not_certified(rounds: RoundsMade) -> None:
    with pytest.raises(PrivacyError, match="rounds made"):
        certified(rounds)
