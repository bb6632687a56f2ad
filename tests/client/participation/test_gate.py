"""The gate of a device: each reason to refuse, alone, with nothing booked; and what may be answered, once."""

import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.client.boards.cache import BoardCache
from fedboard.client.participation.gate import DeviceGate
from fedboard.client.participation.ledger import DeviceLedger
from fedboard.client.participation.policy import Policy
from fedboard.client.participation.promises import catalogue_digest
from fedboard.client.participation.rounds import Gate, OpenGate
from fedboard.common.board import Board, Catalogue
from fedboard.common.contribution_bounding.personal import SCALE_STEPS
from fedboard.common.errors import BudgetExceededError
from fedboard.common.messages.question import Answer, BookedRound
from fedboard.common.messages.refusals import Refusal
from fedboard.common.messages.step import reply_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from fedboard.common.protocols.trusted import Trusted
from tests.client.asking import signed
from tests.client.certified_boards import (
    NO_LIMIT,
    RUN,
    Device,
    Ratings,
    certified_boards,
    changed,
    put,
    with_certificate,
)
from tests.common.algorithms.conftest import a_task, population

TASK = a_task(epsilon=5.0)
SMALL = 10
"""The boards of these tests have few items."""


def a_policy(**fields: Any) -> Policy:
    return Policy(**{"epsilon": 8.0, "delta": 1e-5, "smallest_catalogue": SMALL, **fields})


@pytest.fixture
def device(tmp_path: Path) -> Callable[..., Device]:
    """``(**policy)`` to a device that has answered nothing."""
    return lambda **fields: Device(tmp_path / "device", a_policy(**fields))


def names(boards: list[Board]) -> list[tuple[str, str, float]]:
    return [(RUN, request.name, 1.0) for board in boards for request in TASK.requests(board)]


def test_a_gate_that_forgets_a_decision_cannot_be_made() -> None:
    """Else what it forgets would be allowed."""
    decisions = {name for name, found in vars(Gate).items() if callable(found) and name[0] != "_"}

    assert Gate.__abstractmethods__ == decisions
    assert not issubclass(DeviceGate, OpenGate)
    assert decisions <= set(vars(DeviceGate))


def test_an_answer_is_kept_until_the_next_one_is_booked(tmp_path: Path, boards: list[Board]) -> None:
    """The server lost round 0 and asks for it again after round 1 could not be booked."""
    mine = Device(tmp_path / "device", a_policy())
    first = mine.ask(boards[0])
    with DeviceLedger.open(mine.folder / "ledger.sqlite") as ledger:
        for number in range(3):  # elsewhere: as much as this whole run, as often as the limit bears
            with suppress(BudgetExceededError):
                for asked in TASK.plan():
                    ledger.admit(f"other-{number}", asked)
    before = mine.booked()
    mine.policy = a_policy(epsilon=1000.0)  # the ledger alone keeps the limit of 8 that it was made for

    assert mine.code(boards[1]) is Refusal.OVER_LIMIT
    assert mine.booked() == before
    assert mine.ask(boards[0]) == first
    assert len(list((mine.folder / "answers").iterdir())) == 1  # what was not booked is not kept


def test_of_a_run_one_answer_is_kept_and_other_runs_keep_theirs(
    device: Callable[..., Device], boards: list[Board]
) -> None:
    mine = device(epsilon=20.0)
    other = mine.ask(boards[0], run="books")
    for board in boards:
        mine.ask(board)

    assert len(list((mine.folder / "answers").iterdir())) == 2
    assert mine.ask(boards[0], run="books") == other


def test_a_kept_answer_is_its_owners_alone_also_in_a_folder_that_was_open(
    device: Callable[..., Device], boards: list[Board]
) -> None:
    mine = device()
    answers = mine.folder / "answers"
    answers.mkdir(mode=0o755)
    mine.ask(boards[0])

    (kept,) = answers.iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (answers, kept)] == [0o700, 0o600]


def test_a_whole_run_is_answered_and_booked_round_by_round(
    device: Callable[..., Device], boards: list[Board]
) -> None:
    mine = device()
    for number, board in enumerate(boards, start=1):
        assert mine.code(board) is None
        assert mine.booked() == names(boards[:number])
    assert mine.refusals() == {}


def test_the_answer_is_what_the_task_contributes(device: Callable[..., Device], boards: list[Board]) -> None:
    answer = Answer.from_bytes(device().ask(boards[1]), limit=NO_LIMIT)
    requests = TASK.requests(boards[1])

    own = Ratings().cohort(boards[1])
    expected = Trusted().encode(TASK.contribute(own, boards[1], requests), requests)
    assert answer.rows.items.tolist() == expected.items.tolist()
    assert answer.rows.vectors.tolist() == expected.vectors.tolist()
    assert answer.board_digest == boards[1].digest


def test_a_question_that_is_asked_again_gets_the_same_bytes_and_costs_nothing(
    device: Callable[..., Device], boards: list[Board]
) -> None:
    mine = device()
    first = mine.ask(boards[0])
    mine.ratings = Ratings(population().rows(5, 6))  # ratings that changed meanwhile must not show

    assert mine.ask(boards[0]) == first
    assert mine.booked() == names(boards[:1])


def test_an_answer_that_is_no_longer_kept_is_not_made_again(
    device: Callable[..., Device], boards: list[Board]
) -> None:
    mine = device()
    mine.ask(boards[0])
    mine.ask(boards[1])

    assert mine.code(boards[0]) is Refusal.ANSWERED_BEFORE
    assert mine.booked() == names(boards[:2])


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-1], lambda content: content[:40], lambda _: b""]
)
def test_a_damaged_kept_answer_is_not_sent(
    device: Callable[..., Device], boards: list[Board], damage: Callable[[bytes], bytes]
) -> None:
    mine = device()
    mine.ask(boards[0])
    (kept,) = (mine.folder / "answers").iterdir()
    kept.write_bytes(damage(kept.read_bytes()))

    assert mine.code(boards[0]) is Refusal.ANSWERED_BEFORE


def test_an_answer_that_was_kept_but_not_booked_is_not_sent(
    device: Callable[..., Device], boards: list[Board]
) -> None:
    """A crash between the two: the answer is made and booked as if for the first time."""
    mine = device()
    mine.ask(boards[0])
    for path in mine.folder.glob("ledger.sqlite*"):
        path.unlink()

    assert mine.code(boards[0]) is None
    assert mine.booked() == names(boards[:1])


NOT_ALLOWED = [
    ({"runs": ("books",)}, Refusal.NOT_ALLOWED),
    ({"tasks": ("residual",)}, Refusal.NOT_ALLOWED),
    ({"protocols": ("secure",)}, Refusal.NOT_ALLOWED),
    ({"runs": ()}, Refusal.NOT_ALLOWED),
    ({"runs": ("MOVIES", "movie", "*s2")}, Refusal.NOT_ALLOWED),
    ({"smallest_catalogue": 26}, Refusal.SINGLES_OUT),
    ({"catalogues": ("0" * 64,)}, Refusal.SINGLES_OUT),
    ({"published_only": True}, Refusal.NOT_PUBLISHED),
    ({"adjacency": Adjacency.REPLACE}, Refusal.OTHER_ADJACENCY),
    ({"least_noise": 1e4}, Refusal.NOT_PRIVATE),
    ({"epsilon": 0.01}, Refusal.OVER_LIMIT),
    ({"epsilon_per_run": 0.01}, Refusal.OVER_LIMIT),
    ({"epsilon": 0.01, "scale_down": True}, Refusal.OVER_LIMIT),
]
"""Policies that do not allow the boards of these tests."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "code"),
    [*NOT_ALLOWED, ({"epsilon": 4.9}, Refusal.OVER_LIMIT), ({"epsilon_per_run": 4.9}, Refusal.OVER_LIMIT)],
)
def test_what_the_policy_does_not_allow_is_refused_and_counted(
    device: Callable[..., Device], boards: list[Board], policy: dict[str, Any], code: Refusal
) -> None:
    mine = device(**policy)
    for times in (1, 2):
        assert mine.code(boards[0]) is code
        assert mine.booked() == []
        assert mine.refusals() == {code: times}
    assert not (mine.folder / "answers").exists()


def test_what_the_policy_names_is_answered(tmp_path: Path, boards: list[Board]) -> None:
    cache = BoardCache(tmp_path / "boards")
    put(cache, boards[0])
    policy = a_policy(
        runs=("books", "mov*"),
        tasks=("adadpals",),
        protocols=("trusted",),
        catalogues=(catalogue_digest(boards[0].catalogue),),
        published_only=True,
        least_noise=1e-3,
        epsilon_per_run=5.01,
    )
    assert Device(tmp_path / "device", policy, cache=cache).code(boards[0]) is None


@pytest.mark.parametrize("run", ["a:b", "", "two\nlines", "x" * 300])
def test_a_run_whose_name_cannot_be_booked_is_refused(
    device: Callable[..., Device], boards: list[Board], run: str
) -> None:
    mine = device()
    assert mine.code(boards[0], run=run) is Refusal.WRONG_RUN
    assert mine.booked() == []


def test_an_item_that_is_named_twice_is_refused(device: Callable[..., Device], boards: list[Board]) -> None:
    ids = ("0", *boards[0].catalogue.item_ids[:-1])
    twice = replace(boards[0], catalogue=Catalogue(item_ids=ids), _digest=[])

    assert device().code(twice) is Refusal.SINGLES_OUT


def test_a_board_without_the_certificate_of_its_own_content_is_refused(
    device: Callable[..., Device], boards: list[Board]
) -> None:
    mine, board = device(), boards[1]
    stated = dict(board.certificate or {})
    claim = {**stated["claim"], "epsilon": 0.1}
    for forged in (
        replace(board, certificate=None),
        replace(board, certificate={}),
        replace(board, certificate={**stated, "digest": "0" * 64}),
        replace(board, certificate={**stated, "claim": claim}),
        replace(board, certificate={**stated, "releases": [3]}),
        changed(board, mean=np.array([2.0])),
    ):
        assert mine.code(forged) is Refusal.BAD_BOARD
    assert mine.booked() == []
    assert mine.refusals() == {Refusal.BAD_BOARD: 6}


def test_a_certificate_with_less_noise_than_the_configuration_states_is_refused(
    device: Callable[..., Device], boards: list[Board], tmp_path: Path
) -> None:
    """A sound certificate, of a run that did not keep to its own board."""
    board = replace(boards[1], certificate=None)
    budget = Budget(epsilon=1000.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    codes = []
    for factor in (0.5, 1.0, 2.0):
        with Ledger.create(tmp_path / f"{factor}.sqlite", budget) as ledger:
            for request in TASK.requests(boards[0]):
                multiplier = request.release.noise_multiplier * factor
                noisy = replace(request.release, noise_multiplier=multiplier)
                ledger.book({**noisy.event(), "noise": SecureNoise.label, "private": True})
            noised = with_certificate(board, ledger)
        codes.append(device().code(noised))
    assert codes == [Refusal.BAD_BOARD, None, None]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_board_with_numbers_that_are_not_finite_is_refused(
    device: Callable[..., Device], boards: list[Board], value: float
) -> None:
    factors = np.array(boards[0].arrays["item_factors"])
    factors[3, 1] = value
    mine = device()

    assert mine.code(changed(boards[0], item_factors=factors)) is Refusal.BAD_BOARD
    assert mine.booked() == []


def test_noise_from_a_seed_is_answered_only_where_the_policy_says_so(tmp_path: Path) -> None:
    first, second, _ = certified_boards(tmp_path, TASK, noise=SeededNoise(1))
    wary, willing = (
        Device(tmp_path / name, a_policy(seeded_noise=name == "willing")) for name in ("wary", "willing")
    )
    assert wary.code(second) is Refusal.NOT_PRIVATE
    assert wary.booked() == []
    assert [willing.code(board) for board in (first, second)] == [None, None]


def test_a_board_that_forks_off_is_refused(device: Callable[..., Device], boards: list[Board]) -> None:
    """Same round, other content; and next round, on top of other content."""
    mine = device()
    mine.ask(boards[0])
    other = changed(boards[0], item_factors=-np.asarray(boards[0].arrays["item_factors"]))

    assert mine.code(other) is Refusal.OTHER_HISTORY
    assert mine.booked() == names(boards[:1])


def test_a_next_board_on_other_content_is_refused(tmp_path: Path, boards: list[Board]) -> None:
    (tmp_path / "fork").mkdir()
    fork = certified_boards(tmp_path / "fork", a_task(epsilon=5.0, public_seed=1))
    same_terms = certified_boards(tmp_path, TASK)
    assert same_terms[1].digest == boards[1].digest  # the negative control: this one continues

    mine = Device(tmp_path / "device", a_policy())
    mine.ask(boards[0])
    assert mine.code(fork[1]) is Refusal.OTHER_HISTORY  # other configuration
    assert mine.booked() == names(boards[:1])
    assert mine.code(same_terms[1]) is None


def test_the_right_terms_on_the_wrong_predecessor_are_refused(
    device: Callable[..., Device], boards: list[Board], tmp_path: Path
) -> None:
    board = replace(boards[1], previous_digest="0" * 64, certificate=None, _digest=[])
    budget = Budget(epsilon=100.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    with Ledger.create(tmp_path / "ledger.sqlite", budget) as ledger:
        for request in TASK.requests(boards[0]):
            ledger.book({**request.release.event(), "noise": SecureNoise.label, "private": True})
        board = with_certificate(board, ledger)

    assert device().code(board) is None  # sound, to somebody who has not answered its predecessor
    mine = Device(tmp_path / "other", a_policy())
    mine.ask(boards[0])
    assert mine.code(board) is Refusal.OTHER_HISTORY


def test_rounds_may_be_missed_but_not_made_up_for(device: Callable[..., Device], boards: list[Board]) -> None:
    mine = device()
    assert mine.code(boards[0]) is None
    assert mine.code(boards[2]) is None
    assert mine.code(boards[1]) is Refusal.WRONG_ROUND
    assert mine.booked() == names([boards[0], boards[2]])


def test_a_run_that_is_over_is_not_answered(device: Callable[..., Device], boards: list[Board]) -> None:
    assert device().code(boards[2].successor()) is Refusal.WRONG_ROUND


def test_a_run_is_refused_whole_where_it_would_break_the_limit_later(
    tmp_path: Path, boards: list[Board]
) -> None:
    """Limit of 7: the first run, of epsilon 5, fits; a second one would not, though its first rounds would."""
    mine = Device(tmp_path / "device", a_policy(epsilon=7.0))
    for board in boards:
        assert mine.code(board) is None
    assert mine.spent() == pytest.approx(5.0, rel=1e-3)

    assert mine.code(boards[0], run="books") is Refusal.OVER_LIMIT
    assert mine.booked() == names(boards)


def test_where_the_policy_says_so_a_smaller_part_is_given_in_every_round(
    tmp_path: Path, boards: list[Board]
) -> None:
    mine = Device(tmp_path / "device", a_policy(epsilon=2.0, scale_down=True))
    for board in boards:
        assert mine.code(board) is None

    scales = {scale for _, _, scale in mine.booked()}
    assert len(scales) == 1
    (scale,) = scales
    assert 0.1 < scale < 1
    assert scale * SCALE_STEPS == int(scale * SCALE_STEPS)
    assert 1.98 < mine.spent() <= 2.0


def test_the_limit_of_a_run_scales_it_down_though_more_is_left(tmp_path: Path, boards: list[Board]) -> None:
    mine = Device(tmp_path / "device", a_policy(epsilon=8.0, epsilon_per_run=2.0, scale_down=True))
    for run in (RUN, "books"):
        for board in boards:
            assert mine.code(board, run=run) is None

    assert len({scale for _, _, scale in mine.booked()}) == 1
    assert 2.8 < mine.spent() < 3.0  # two of 2.0 together


def test_a_limit_that_was_lowered_under_way_is_kept(tmp_path: Path, boards: list[Board]) -> None:
    mine = Device(tmp_path / "device", a_policy())
    mine.ask(boards[0])
    mine.ask(boards[1])
    before, spent = mine.booked(), mine.spent()

    for policy in (a_policy(epsilon=spent * 1.001), a_policy(epsilon_per_run=spent * 1.001)):
        mine.policy = policy
        assert mine.code(boards[2]) is Refusal.OVER_LIMIT
        assert mine.booked() == before
    mine.policy = a_policy()
    assert mine.code(boards[2]) is None


def test_every_user_of_a_gateway_gives_the_same_part(tmp_path: Path, boards: list[Board]) -> None:
    mine = Device(tmp_path / "device", a_policy(epsilon=2.0, scale_down=True))
    mine.ratings = Ratings(population())
    answer = Answer.from_bytes(mine.ask(boards[1]), limit=NO_LIMIT)

    assert answer.n_users == population().n_users
    assert len(mine.booked()) == len(TASK.requests(boards[1]))


def test_a_refusal_never_depends_on_the_ratings(tmp_path: Path, boards: list[Board]) -> None:
    """Nobody's, everybody's, only unknown items: what is refused is refused, what is answered is answered."""
    nobody = population().rows(0, 1)
    for number, ratings in enumerate((nobody, population().rows(1, 2), population().rows(5, 6))):
        mine = Device(tmp_path / str(number), a_policy(smallest_catalogue=25))
        mine.ratings = Ratings(ratings)
        assert mine.code(boards[0]) is None
        mine.policy = a_policy(smallest_catalogue=26)
        assert mine.code(boards[1]) is Refusal.SINGLES_OUT


def test_a_round_whose_board_was_published_is_answered_no_more(tmp_path: Path, boards: list[Board]) -> None:
    """A server that went back to an older ledger asks again, gets the answer that was kept, and draws new noise."""
    cache = BoardCache(tmp_path / "published")
    mine = Device(tmp_path / "device", a_policy(epsilon=50.0), cache=cache)
    assert mine.code(boards[0]) is None
    assert mine.code(boards[0]) is None, "lost on the way: the kept answer is sent again"
    new = Device(tmp_path / "new", a_policy(epsilon=50.0), cache=cache)
    put(cache, boards[1])

    assert mine.code(boards[0]) is Refusal.WRONG_ROUND
    assert new.code(boards[0]) is Refusal.WRONG_ROUND
    assert new.code(boards[1]) is None


def test_a_round_that_its_server_has_booked_is_answered_no_more(
    device: Callable[..., Device], boards: list[Board]
) -> None:
    """Also where the answer was kept; what is noted outlives the process, and the first word on a round stands."""
    mine, asked = device(), boards[1]

    def told(number: int, by: str) -> tuple[bytes, bytes]:
        message = signed(BookedRound(run=RUN, round=number, head="h", by=by).to_bytes())
        return message, reply_of(mine.reply(message), limit=1 << 12)

    assert mine.code(asked) is None
    assert list((mine.folder / "answers").iterdir())
    first, before = told(asked.version, "one")
    assert before == b""
    assert not list((mine.folder / "answers").iterdir())
    assert told(asked.version, "another")[1] == first
    assert mine.code(asked) is mine.code(boards[0]) is Refusal.WRONG_ROUND
    later, before = told(asked.version + 1, "one")
    assert before == first
    assert told(asked.version, "one")[1] == later
    assert mine.code(boards[0], run="another-run") is None, "of another run nothing is known"
