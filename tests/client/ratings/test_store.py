"""The rating store: what a dict would hold, in a file of her own, and nothing of it once it is deleted."""

import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fedboard.client.ratings.own_file import read_ratings, write_ratings
from fedboard.client.ratings.store import OwnRating, RatingStore
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.board import Board
from fedboard.common.errors import InputError, StorageError

_ITEMS = st.sampled_from(["10", "11", "Amélie", 'with "quotes", and comma', "15"])
_RATINGS = st.floats(min_value=-5, max_value=5, allow_subnormal=False)
_TIMES = st.none() | st.integers(min_value=0, max_value=2**62)


@pytest.fixture
def store(tmp_path: Path) -> RatingStore:
    return RatingStore.create(tmp_path / "mine.sqlite")


class Model(RuleBasedStateMachine):
    """Any sequence of changes leaves what a dict would hold, in the store and in the file opened anew."""

    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.path = self.folder / f"{id(self)}.sqlite"
        self.path.unlink(missing_ok=True)
        self.store = RatingStore.create(self.path)
        self.model: dict[str, OwnRating] = {}

    @rule(item=_ITEMS, rating=_RATINGS, when=_TIMES)
    def add(self, item: str, rating: float, when: int | None) -> None:
        own = OwnRating(item=item, rating=rating, rated_at=when)
        assert self.store.put([own]) == (item not in self.model)
        self.model[item] = own

    @rule(given=st.dictionaries(_ITEMS, st.tuples(_RATINGS, _TIMES), min_size=1))
    def import_file(self, given: dict[str, tuple[float, int | None]]) -> None:
        rows = [OwnRating(item=item, rating=r, rated_at=when) for item, (r, when) in given.items()]
        path = self.path.with_suffix(".csv")
        with path.open("w", encoding="utf-8") as stream:
            write_ratings(stream, rows)
        assert self.store.put(read_ratings(path)) == len(set(given) - set(self.model))
        self.model |= {own.item: own for own in rows}

    @rule(item=_ITEMS)
    def remove(self, item: str) -> None:
        if item in self.model:
            self.store.remove(item)
            del self.model[item]
        else:
            with pytest.raises(InputError, match="no rating of item"):
                self.store.remove(item)

    @rule(item=_ITEMS)
    def fail_half_way(self, item: str) -> None:
        def rows() -> Any:
            yield OwnRating(item=item, rating=0.25)
            raise InputError("a bad line")

        with pytest.raises(InputError, match="a bad line"):
            self.store.put(rows())

    @rule()
    def delete_all(self) -> None:
        assert self.store.delete_all() == len(self.model)
        self.model = {}

    @rule()
    def open_again(self) -> None:
        self.store.close()
        self.store = RatingStore.open(self.path)

    @invariant()
    def it_holds_what_a_dict_would(self) -> None:
        assert self.store.ratings() == tuple(self.model[item] for item in sorted(self.model))
        assert len(self.store) == len(self.model)

    def teardown(self) -> None:
        self.store.close()


@pytest.mark.slow
def test_any_sequence_of_changes_equals_a_dict(tmp_path: Path) -> None:
    Model.folder = tmp_path
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        Model, settings=settings(max_examples=15, stateful_step_count=15, deadline=None)
    )


def test_nobody_else_may_read_it(store: RatingStore) -> None:
    store.put([OwnRating(item="10", rating=1.0)])

    for path in store.path.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_copy_with_wider_rights_is_narrowed_when_it_is_opened(store: RatingStore) -> None:
    store.close()
    store.path.chmod(0o644)

    RatingStore.open(store.path).close()
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_what_is_deleted_leaves_no_bytes_in_the_folder(store: RatingStore) -> None:
    secrets = [f"the-diary-of-{number:04}" for number in range(500)]
    store.put([OwnRating(item=secret, rating=4.5) for secret in secrets])
    assert all(secret.encode() in store.path.read_bytes() for secret in secrets)  # the negative control

    store.remove(secrets[0])
    store.put([OwnRating(item=secret, rating=1.5) for secret in secrets[1:]])
    assert secrets[0].encode() not in store.path.read_bytes()
    assert store.delete_all() == 499

    def found() -> bytes:
        return b"".join(path.read_bytes() for path in store.path.parent.iterdir())

    assert b"the-diary-of" not in found()
    store.close()
    assert b"the-diary-of" not in found()


def test_without_secure_deletion_the_bytes_would_stay(store: RatingStore) -> None:
    """What the setting is for: the same deletion without it leaves everything readable."""
    store.put([OwnRating(item=f"the-diary-of-{number:04}", rating=4.5) for number in range(500)])
    store.close()
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA secure_delete = OFF").fetchall()
    connection.execute("DELETE FROM ratings")
    connection.commit()
    connection.close()

    assert b"the-diary-of" in store.path.read_bytes()


def test_her_row_holds_what_the_board_can_use(store: RatingStore, board: Board) -> None:
    rated = {"14": 2.0, "10": 4.5, "99": 3.0, "11": 7.0}
    store.put([OwnRating(item=item, rating=rating) for item, rating in rated.items()])

    own = store.cohort(board)
    assert (own.items.tolist(), own.ratings.tolist()) == ([0, 4], [4.5, 2.0])
    assert (own.n_users, own.n_items, own.first_row) == (1, 6, 0)


def test_for_implicit_feedback_being_listed_is_the_rating(
    store: RatingStore, make_board: Callable[..., Board]
) -> None:
    store.put([OwnRating(item="12", rating=40.0)])

    assert store.cohort(make_board(Feedback.IMPLICIT)).ratings.tolist() == [1.0]


def test_an_empty_store_is_an_empty_row(store: RatingStore, board: Board) -> None:
    own = store.cohort(board)
    assert (own.n_users, own.n_ratings) == (1, 0)


def test_her_number_in_the_population_goes_with_her_row(store: RatingStore, board: Board) -> None:
    with RatingStore.open(store.path, first_row=7) as again:
        assert again.cohort(board).first_row == 7


@pytest.mark.parametrize(
    ("item", "rating"), [("", 1.0), (" ", 1.0), ("a\nb", 1.0), ("x" * 1001, 1.0), ("a", float("nan"))]
)
def test_what_is_no_rating_is_refused(item: str, rating: float) -> None:
    with pytest.raises(InputError, match="must be"):
        OwnRating(item=item, rating=rating)


def test_several_writers_at_once_lose_nothing(store: RatingStore) -> None:
    def write(worker: int) -> None:
        with RatingStore.open(store.path) as mine:
            for number in range(10):
                mine.put([OwnRating(item=f"{worker}-{number}", rating=1.0)])

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == 30


def test_a_store_that_is_there_is_not_made_again(store: RatingStore) -> None:
    with pytest.raises(InputError, match="no rating store can be made there"):
        RatingStore.create(store.path)
    with pytest.raises(InputError, match="no rating store can be made there"):
        RatingStore.create(store.path.parent / "missing" / "mine.sqlite")


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no rating store"):
        RatingStore.open(tmp_path / "mine.sqlite")
    (tmp_path / "text").write_text("item,rating\n" * 100)
    with pytest.raises(StorageError, match="damaged"):
        RatingStore.open(tmp_path / "text")
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE t (a)").connection.close()
    with pytest.raises(InputError, match="not a rating store"):
        RatingStore.open(tmp_path / "other")


def test_a_store_of_a_later_version_is_refused(store: RatingStore) -> None:
    store.close()
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()

    with pytest.raises(InputError, match="version 2; this version of fedboard reads 1"):
        RatingStore.open(store.path)


def test_a_damaged_store_is_refused(store: RatingStore) -> None:
    store.put([OwnRating(item=f"item-{number}", rating=4.5) for number in range(2000)])
    store.close()
    content = bytearray(store.path.read_bytes())
    content[4096:12288] = b"\xff" * 8192
    store.path.write_bytes(content)

    with pytest.raises(StorageError, match="damaged"):
        RatingStore.open(store.path)


def test_a_store_that_is_cut_short_is_refused(store: RatingStore) -> None:
    store.put([OwnRating(item=f"item-{number}", rating=4.5) for number in range(2000)])
    store.close()
    store.path.write_bytes(store.path.read_bytes()[:6000])

    with pytest.raises(StorageError):
        RatingStore.open(store.path).ratings()


def test_titles_that_were_typed_before_any_board_are_found_when_one_comes(
    store: RatingStore, make_board: Callable[..., Board]
) -> None:
    """By the full title in any case, with or without the year; what several items are called is on none."""
    typed = {"heat (1995)": 5.0, "Alien": 4.0, "Ran (1985)": 3.0, "Ran": 3.0, "No Such Film": 2.0, "15": 1.0}
    store.put([OwnRating(item=item, rating=rating) for item, rating in typed.items()])

    own = store.cohort(make_board())

    assert dict(zip(own.items.tolist(), own.ratings.tolist(), strict=True)) == {0: 5.0, 4: 4.0, 5: 1.0}
    assert store.cohort(make_board(titles=False)).items.tolist() == [5]


def test_an_item_that_is_rated_by_id_and_by_title_counts_once_by_id(
    store: RatingStore, make_board: Callable[..., Board]
) -> None:
    store.put(
        [OwnRating(item=item, rating=r) for item, r in (("Heat", 1.0), ("HEAT (1995)", 2.0), ("10", 4.0))]
    )

    own = store.cohort(make_board())

    assert (own.items.tolist(), own.ratings.tolist()) == ([0], [4.0])
