"""What every protocol states about itself is so: parameters, trust, sizes of messages, noise."""

import json
from pathlib import Path

import pytest

from fedboard.common.contribution import Request
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.common.privacy.releases.noise_shares import SharedNoise
from fedboard.common.protocol import NoiseAt
from fedboard.common.protocols.registry import PROTOCOL_NAMES, sized_protocol
from tests.common.protocols.cases import ITEMS, each_case, raises
from tests.common.protocols.meetings import (
    SPLIT,
    Case,
    assert_same,
    meeting,
)


def booked(request: Request, noise: NoiseSource, folder: Path) -> BookedRelease:
    name = f"{request.source}-{noise.label}.sqlite".replace("/", " ")
    budget = Budget(epsilon=50.0, delta=1e-5, adjacency=request.release.adjacency)
    with Ledger.create(folder / name, budget) as ledger:
        return request.release.book(ledger, noise)


@each_case
def test_the_parameters_go_through_json_and_rebuild_the_protocol_on_a_client(case: Case) -> None:
    met = meeting(case, ITEMS)
    stated = json.loads(json.dumps(dict(met.protocol.parameters)))

    rebuilt = type(met.protocol).from_parameters(stated)  # type: ignore[attr-defined]
    met.clients = {name: rebuilt.join(met.about, met.noise[name]) for name in met.given}

    assert rebuilt.parameters == met.protocol.parameters
    assert_same(met.finish(), met.expected())


@each_case
def test_parameters_that_make_no_sense_are_refused_in_one_sentence(case: Case) -> None:
    protocol = case.make(len(SPLIT) - 1)
    stated = dict(protocol.parameters)
    bad = [{**stated, "unknown": 1}, *({k: v for k, v in stated.items() if k != name} for name in stated)]
    bad += [{**stated, name: value} for name in stated for value in ("", None, -1, float("nan"), [])]

    for parameters in bad:
        make = type(protocol).from_parameters  # type: ignore[attr-defined]
        assert raises(InputError, make, parameters), f"took {parameters}"


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_a_setting_that_a_protocol_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        sized_protocol(name, clients=10, users=100, settings={"unknown": 1})


@each_case
def test_the_trust_model_is_told_in_whole_sentences(case: Case) -> None:
    for sentence in case.make(len(SPLIT) - 1).trust.sentences:
        assert sentence.endswith(".")
        assert sentence[0].isupper()
        assert "  " not in sentence


def sizes(case: Case, *, seed: int) -> list[list[int]]:
    met, found = meeting(case, ITEMS, seed=seed), []
    for messages in met.steps():
        replies = [met.reply(name, message) for name, message in messages.items()]
        found.append([len(content) for content in (*messages.values(), *replies)])
        met.take_all(messages)
    return found


@each_case
def test_the_sizes_of_messages_tell_of_the_ratings_only_where_the_protocol_says_so(case: Case) -> None:
    assert (sizes(case, seed=0) == sizes(case, seed=1)) == case.hides_ratings


@each_case
def test_what_the_ledger_books_as_noise_is_where_the_noise_is(case: Case) -> None:
    """With the noise left in, the sums are off by as much as is stated, or not at all."""
    met = meeting(case, ITEMS, noise=lambda number: SeededNoise(number))
    for messages in met.steps():
        met.take_all(messages)
    sums = met.server.sums()
    found, exact = met.told(sums), met.expected()

    assert met.protocol.noise(SecureNoise()).private
    assert not met.protocol.noise(SeededNoise(0)).private
    for request in met.requests:
        off = (found[request.name] - exact[request.name]) / request.release.column_stddev()
        assert off.std() == pytest.approx(case.spread(met.protocol), rel=0.2)
    assert sums.noise_shares == case.shares(met.protocol)
    if met.protocol.noise_at is NoiseAt.SERVER:
        assert met.protocol.noise(SeededNoise(3)).describe() == SeededNoise(3).describe()


@pytest.mark.slow
@each_case
def test_the_sums_pass_through_the_releases_that_are_booked_for_them_and_no_others(
    case: Case, tmp_path: Path
) -> None:
    met = meeting(case, ITEMS)
    for messages in met.steps():
        met.take_all(messages)
    sums, drawn = met.server.sums(), SeededNoise(0)
    told, other = met.told(sums), SharedNoise(least=1, drawn=drawn)
    if sums.noise_shares:
        other = drawn

    for request in met.requests:
        values = told[request.name]
        published = booked(request, met.protocol.noise(drawn), tmp_path).publish(
            values, noise_shares=sums.noise_shares
        )
        off = published / request.release.grid_step - values
        assert bool(off.std() > request.release.noise_stddev / 2) == (not sums.noise_shares)
        with pytest.raises(PrivacyError):
            booked(request, other, tmp_path).publish(values, noise_shares=sums.noise_shares)


def test_the_noise_that_tests_take_out_is_taken_out_by_the_code_that_draws_it() -> None:
    from fedboard.common.kernels import standard_normal
    from tests.common.protocols.meetings import SilentNoise

    words = SilentNoise().stream("any").bits(0, 10)

    for backend in ("numpy", "compiled"):
        assert not standard_normal(words, backend=backend).any()
    assert standard_normal(SeededNoise(0).stream("any").bits(0, 10), backend="numpy").all()
