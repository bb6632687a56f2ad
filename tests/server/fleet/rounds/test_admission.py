"""Bad answers: each gets its code, is counted, and changes nothing else."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.client.participation.rounds import respond
from fedboard.common.contribution import Contribution
from fedboard.common.messages.question import Answer, Question, refusal
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import ReplyKey
from fedboard.common.protocols.trusted import Trusted
from fedboard.server.fleet.rounds.trusted_rounds import Admission, fresh_question
from tests.client.asking import asking, reply_to, sealed, signed
from tests.common.algorithms.conftest import N_ITEMS, population
from tests.server.fleet.local_fleet import (
    FIRST_BOARD,
    N_NODES,
    TASK,
    Fleet,
    Phone,
    Tamper,
    digests,
    events,
    phone,
    rewritten,
    unsealed,
    with_rows,
)
from tests.simulations.audit.hostile import hostile_messages

pytestmark = pytest.mark.slow

LAST = N_NODES - 1
N_ROUNDS = 3
TRIES = 10
"""How often a node is asked that may do better next time."""


Check = Callable[..., None]


@pytest.fixture(scope="module")
def without_the_last(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a run of the same users but those of the last node, who are not there; to be read only."""
    found: dict[str, Path] = {}

    def folder(**settings: Any) -> Path:
        key = repr(sorted(settings.items()))
        if key not in found:
            found[key] = tmp_path_factory.mktemp("without") / "run"
            Fleet(found[key], n_nodes=LAST, settings=settings).run()
        return found[key]

    return folder


@pytest.fixture
def changes_nothing_else(tmp_path: Path, without_the_last: Callable[..., Path]) -> Check:
    """Boards, releases and certificates are those of a run without the last node; only the count tells."""

    def check(tamper: Tamper, refused: Mapping[str, int], **settings: Any) -> None:
        outcome = Fleet(tmp_path / "with", tampers={LAST: tamper}, settings=settings).run()
        expected = without_the_last(**settings)

        assert digests(tmp_path / "with") == digests(expected)
        assert events(tmp_path / "with") == events(expected)
        assert outcome.refused == refused
        assert [line["answers"] for line in outcome.rounds] == [LAST] * N_ROUNDS
        assert [line["rejected_rows"] for line in outcome.rounds] == [0] * N_ROUNDS

    return check


def other(**changes: Any) -> Tamper:
    return rewritten(lambda answer: replace(answer, **changes))


def stretched(question: Question, honest: bytes) -> bytes:
    return honest + bytes(1 << 20)


def of_the_next_version(question: Question, honest: bytes) -> bytes:
    return honest[:7] + b"2" + honest[8:]


def cut_short(question: Question, honest: bytes) -> bytes:
    return honest[:-3]


def echoed(question: Question, honest: bytes) -> bytes:
    return question.content


def as_it_is(question: Question, honest: bytes) -> bytes:
    return honest


def opened_on_the_way(question: Question, honest: bytes) -> bytes:
    """Whoever carries it can only seal it to a key of his own."""
    return sealed(honest, replace(question, reply_key=ReplyKey().public))


def about_something_else(question: Question, honest: bytes) -> bytes:
    return sealed(honest, replace(question, run="another"))


def with_a_flipped_byte(question: Question, honest: bytes) -> bytes:
    content = bytearray(sealed(honest, question))
    content[-1] ^= 1
    return bytes(content)


def to_a_key_that_hides_nothing(question: Question, honest: bytes) -> bytes:
    content = sealed(honest, question)
    return content[:9] + bytes(1120) + content[1129:]


def the_magic_alone(question: Question, honest: bytes) -> bytes:
    return sealed(honest, question)[:8]


def sealed_as_the_version_before(question: Question, honest: bytes) -> bytes:
    return b"FBSEAL01" + sealed(honest, question)[8:]


ONCE = [
    (unsealed(sealed_as_the_version_before), Refusal.WRONG_VERSION),
    (stretched, Refusal.TOO_LARGE),
    (of_the_next_version, Refusal.WRONG_VERSION),
    (other(run="another"), Refusal.WRONG_RUN),
    (other(round=7), Refusal.WRONG_ROUND),
    (other(round=-1), Refusal.WRONG_ROUND),
    (other(board_digest="0" * 64), Refusal.WRONG_BOARD),
    (rewritten(lambda answer: answer, n_items=N_ITEMS + 1), Refusal.WRONG_BOARD),
    (lambda question, honest: refusal(Refusal.OVER_LIMIT), Refusal.OVER_LIMIT),
    (lambda question, honest: refusal(Refusal.NOT_ALLOWED), Refusal.NOT_ALLOWED),
    (unsealed(lambda question, honest: refusal(Refusal.NOT_ALLOWED)), Refusal.NOT_ALLOWED),
    (unsealed(stretched), Refusal.TOO_LARGE),
    (unsealed(of_the_next_version), Refusal.WRONG_VERSION),
]


@pytest.mark.parametrize(("tamper", "code"), ONCE, ids=lambda value: getattr(value, "value", ""))
def test_an_answer_to_something_else_is_counted_once_a_round(
    changes_nothing_else: Check, tamper: Tamper, code: Refusal
) -> None:
    changes_nothing_else(tamper, {code.value: N_ROUNDS})


AGAIN = [
    (lambda question, honest: b"nonsense", Refusal.MALFORMED),
    (lambda question, honest: b"", Refusal.MALFORMED),
    (cut_short, Refusal.MALFORMED),
    (echoed, Refusal.MALFORMED),
    (unsealed(as_it_is), Refusal.MALFORMED),
    (unsealed(echoed), Refusal.MALFORMED),
    (unsealed(lambda question, honest: b"nonsense"), Refusal.MALFORMED),
    (unsealed(opened_on_the_way), Refusal.MALFORMED),
    (unsealed(about_something_else), Refusal.MALFORMED),
    (unsealed(with_a_flipped_byte), Refusal.MALFORMED),
    (unsealed(to_a_key_that_hides_nothing), Refusal.MALFORMED),
    (unsealed(the_magic_alone), Refusal.MALFORMED),
    (unsealed(lambda question, honest: refusal(Refusal.INTERNAL)), Refusal.INTERNAL),
    (lambda question, honest: refusal(Refusal.INTERNAL), Refusal.INTERNAL),
]


@pytest.mark.parametrize(("tamper", "code"), AGAIN)
def test_what_may_pass_is_asked_again_but_not_for_ever(
    changes_nothing_else: Check, tamper: Tamper, code: Refusal
) -> None:
    changes_nothing_else(tamper, {code.value: N_ROUNDS * TRIES})


def test_a_cohort_that_is_larger_than_agreed_is_not_taken(
    tmp_path: Path, without_the_last: Callable[..., Path]
) -> None:
    nodes = {f"key-{number}": 100 for number in range(LAST)}
    fleet = Fleet(tmp_path / "with", members=lambda: {**nodes, f"key-{LAST}": 9})

    assert fleet.run().refused == {"too-many-users": N_ROUNDS}
    assert digests(tmp_path / "with") == digests(without_the_last())


def test_an_answer_to_an_earlier_round_or_run_does_not_count_again(tmp_path: Path) -> None:
    first: list[bytes] = []

    def replaying(question: Question, honest: bytes) -> bytes:
        first.append(honest)
        return first[0]

    outcome = Fleet(tmp_path / "run", tampers={LAST: replaying}).run()
    again = Fleet(tmp_path / "again", tampers={LAST: replaying}).run()

    assert outcome.refused == {"wrong-round": N_ROUNDS - 1}
    assert [line["answers"] for line in outcome.rounds] == [N_NODES, LAST, LAST]
    assert again.refused == {"wrong-run": N_ROUNDS}


def test_an_envelope_of_an_earlier_round_cannot_be_opened_in_a_later_one(tmp_path: Path) -> None:
    """The key of a round is gone with it, and a new round has a new one."""
    first: list[bytes] = []
    keys: set[bytes] = set()

    def replaying(question: Question, honest: bytes) -> bytes:
        keys.add(question.reply_key)
        first.append(sealed(honest, question))
        return first[0]

    outcome = Fleet(tmp_path / "run", tampers={LAST: unsealed(replaying)}).run()

    assert outcome.refused == {"malformed": (N_ROUNDS - 1) * TRIES}
    assert [line["answers"] for line in outcome.rounds] == [N_NODES, LAST, LAST]
    assert len(keys) == N_ROUNDS


def test_an_answer_that_is_sealed_to_the_key_of_another_round_is_refused() -> None:
    old, new = ReplyKey(), ReplyKey()
    question = asking(FIRST_BOARD, reply_key=new.public)
    admission = Admission(question=question, requests=TASK.requests(FIRST_BOARD), key=new)
    honest = reply_to(question, source=phone(0), gate=phone(0))

    with pytest.raises(RefusedError) as refused:
        admission.take("ann", sealed(honest, replace(question, reply_key=old.public)), max_users=20)
    assert refused.value.code is Refusal.MALFORMED
    with pytest.raises(RefusedError) as refused:
        admission.take("ann", honest, max_users=20)  # without an envelope
    assert refused.value.code is Refusal.MALFORMED
    assert admission.users == {}
    admission.take("ann", sealed(honest, question), max_users=20)
    assert admission.users == {"ann": 10}


def with_no_array_that_fits(rows: Contribution) -> Contribution:
    return replace(rows, weights=None, vectors=None)


def running_back(rows: Contribution) -> Contribution:
    return replace(rows, indptr=rows.indptr[::-1].copy())


def beyond_its_entries(rows: Contribution) -> Contribution:
    return replace(rows, indptr=rows.indptr * 3)


def once_round_64_bits(rows: Contribution) -> Contribution:
    """Not ascending, though no difference is negative in 64 bits."""
    indptr = np.full_like(rows.indptr, rows.indptr[-1])
    indptr[:3] = 0, 2**63 - 1, -2
    return replace(rows, indptr=indptr)


def with_flat_vectors(rows: Contribution) -> Contribution:
    return replace(rows, vectors=np.zeros(rows.n_users, dtype=np.int16))


def with_wide_weights(rows: Contribution) -> Contribution:
    weights = rows.weights
    assert weights is not None
    return replace(rows, weights=weights.astype(np.int64))


def with_flat_totals(rows: Contribution) -> Contribution:
    return replace(rows, totals={name: values.reshape(-1) for name, values in rows.totals.items()})


CROOKED = [
    with_no_array_that_fits,
    running_back,
    beyond_its_entries,
    once_round_64_bits,
    with_wide_weights,
]
WHO: list[dict[str, Any]] = [{}, {"size": 20}]


@pytest.mark.parametrize("crooked", CROOKED)
@pytest.mark.parametrize("participation", WHO, ids=["everybody", "some"])
def test_rows_that_do_not_fit_together_are_refused_whoever_takes_part(
    changes_nothing_else: Check,
    crooked: Callable[[Contribution], Contribution],
    participation: dict[str, Any],
) -> None:
    changes_nothing_else(with_rows(crooked), {"malformed": N_ROUNDS * TRIES}, **participation)


def in_the_preparation(change: Callable[[Contribution], Contribution]) -> Tamper:
    def tamper(question: Question, honest: bytes) -> bytes:
        return with_rows(change)(question, honest) if question.round == 0 else honest

    return tamper


def after_the_preparation(change: Callable[[Contribution], Contribution]) -> Tamper:
    def tamper(question: Question, honest: bytes) -> bytes:
        return with_rows(change)(question, honest) if question.round else honest

    return tamper


@pytest.mark.parametrize("participation", WHO, ids=["everybody", "some"])
def test_crooked_totals_and_vectors_are_refused_whoever_takes_part(
    tmp_path: Path, participation: dict[str, Any]
) -> None:
    for number, tamper in enumerate(
        (in_the_preparation(with_flat_totals), after_the_preparation(with_flat_vectors))
    ):
        outcome = Fleet(tmp_path / str(number), tampers={LAST: tamper}, settings=participation).run()

        assert outcome.refused == {"malformed": TRIES * (1 if number == 0 else 2)}
        assert outcome.board.version == N_ROUNDS


def with_more_than_was_asked(rows: Contribution) -> Contribution:
    crooked = {"more": np.ones((1, 1), dtype=np.int64), "flat": np.ones(3, dtype=np.int64)}
    return replace(rows, totals={**rows.totals, **crooked})


@pytest.mark.parametrize("participation", WHO, ids=["everybody", "some"])
def test_what_nobody_asked_for_is_left_out(tmp_path: Path, participation: dict[str, Any]) -> None:
    tampers = {LAST: with_rows(with_more_than_was_asked)}
    outcome = Fleet(tmp_path / "with", tampers=tampers, settings=participation).run()
    Fleet(tmp_path / "honest", settings=participation).run()

    assert outcome.refused == {}
    assert digests(tmp_path / "with") == digests(tmp_path / "honest")


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_break_a_bound_are_dropped_and_counted(
    tmp_path: Path, without_the_last: Callable[..., Path], seed: int
) -> None:
    """Hostile rows are one each; the board is that of a run in which the node has nobody."""
    rng = np.random.default_rng(seed)

    def hostile(question: Question, honest: bytes) -> bytes:
        found = [
            rows for _, rows in hostile_messages(TASK.requests(question.board), N_ITEMS, rng) if breaks(rows)
        ]
        answer = Answer.from_bytes(honest, limit=1 << 24)
        return replace(answer, n_users=1, rows=found[seed]).to_bytes(n_items=N_ITEMS)

    def breaks(rows: Contribution) -> bool:
        if rows.vectors is not None and np.abs(rows.vectors.astype(np.int64)).max(initial=0) > 4096:
            return True
        return any(np.abs(values.astype(object)).max(initial=0) > 1 << 38 for values in rows.totals.values())

    outcome = Fleet(tmp_path / "with", tampers={LAST: hostile}).run()

    assert outcome.refused == {}
    assert [line["rejected_rows"] for line in outcome.rounds] == [1] * N_ROUNDS
    assert [line["answers"] for line in outcome.rounds] == [N_NODES] * N_ROUNDS
    assert digests(tmp_path / "with") == digests(without_the_last())


def test_an_answer_of_nobody_counts_once_like_any_other() -> None:
    question, key = fresh_question(FIRST_BOARD, run="run-1", protocol=Trusted(), private_noise=True)
    admission = Admission(question=question, requests=tuple(TASK.requests(FIRST_BOARD)), key=key)
    nobody = Phone(population().rows(0, 0))

    def answer() -> bytes:
        return respond(signed(question.content), source=nobody, gate=nobody)

    assert admission.take("a", answer(), max_users=5).n_users == 0
    with pytest.raises(RefusedError) as second:
        admission.take("a", answer(), max_users=5)

    assert second.value.code is Refusal.DUPLICATE
    assert admission.take("b", answer(), max_users=5).n_users == 0
    assert admission.users == {"a": 0, "b": 0}


def test_another_form_of_message_is_refused(changes_nothing_else: Check) -> None:
    def in_another_form(question: Question, honest: bytes) -> bytes:
        asked = replace(question, form="dense")
        return reply_to(asked, source=phone(LAST), gate=phone(LAST))

    changes_nothing_else(in_another_form, {"wrong-form": N_ROUNDS})
