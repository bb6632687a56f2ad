"""What one person gets from a board, named as she names it."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import fedboard
from fedboard.cli.main import commands


@pytest.fixture(scope="module")
def board(run_place: Path) -> fedboard.Board:
    return fedboard.load_board(run_place)


def test_ids_and_titles_name_the_same_items(board: fedboard.Board) -> None:
    ids, titles = board.catalogue.item_ids, board.catalogue.titles
    assert titles is not None

    by_id = fedboard.recommend({ids[0]: 5.0, ids[7]: 2.0}, board, k=5)
    by_title = fedboard.recommend({titles[0]: 5.0, titles[7].upper(): 2}, board, k=5)
    by_number = fedboard.recommend({int(ids[0]): 5.0, int(ids[7]): 2.0}, board, k=5)

    assert by_id == by_title == by_number
    assert len(by_id) == 5
    assert not {ids[0], ids[7]} & {found.item_id for found in by_id}
    assert by_id[0].title == titles[ids.index(by_id[0].item_id)]
    assert [found.score for found in by_id] == sorted((f.score for f in by_id), reverse=True)


def test_a_file_gives_what_the_command_line_gives(run_place: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("item,rating\n1,5\n2,1\n", encoding="utf-8")

    found = fedboard.recommend(str(mine), run_place, k=3)

    command = ["recommend", str(mine), str(run_place), "-k", "3", "--json"]
    told = json.loads(CliRunner().invoke(commands, command).stdout)["recommendations"]
    plain = [(one["item_id"], one["title"], one["score"], one["reason"]) for one in told]
    assert plain == [(*one[:3], one.reason._asdict()) for one in found]


def test_list_explanation_and_command_give_the_same_reason(run_place: Path, tmp_path: Path) -> None:
    """All ratings together, as the account of each of them adds up."""
    mine = tmp_path / "mine.csv"
    mine.write_text("item,rating\n1,5\n2,1\n", encoding="utf-8")

    for one in fedboard.recommend(str(mine), run_place, k=10):
        taken = fedboard.explain(one.item_id, str(mine), run_place)
        command = ["explain", one.item_id, str(mine), str(run_place), "--json"]
        told = json.loads(CliRunner().invoke(commands, command).stdout)
        assert one.reason is not None
        assert taken.reason.net == pytest.approx(sum(part.added for part in taken.influences))
        assert told["reason"] == taken.reason._asdict()
        assert one.reason == taken.reason._replace(net=pytest.approx(taken.reason.net))
        assert one.reason.effect != "lowered" or "ratings take" in one.reason.words()
        strongest = max(taken.influences, key=lambda part: part.added * taken.reason.net)
        assert one.reason.item_id in (strongest.item_id, None)
        assert (one.reason.effect == "hardly-moved") == (abs(one.reason.net) <= 0.04)


@pytest.mark.parametrize(
    ("ratings", "sentence"),
    [
        ({"no such film": 4.0}, r"ratings\['no such film'\]: 'no such film' is not in the board's catalogue"),
        ({"1": 9.0}, r"ratings\['1'\]: a rating must be a number from 1 to 5, got 9.0"),
        ({"1": None}, "must be a number from 1 to 5, got None"),
        ({}, "at least one item"),
        (["1", "2"], "give them as {item: rating}"),
    ],
)
def test_what_cannot_be_used_says_which_and_why(
    board: fedboard.Board, ratings: object, sentence: str
) -> None:
    with pytest.raises(fedboard.errors.InputError, match=sentence):
        fedboard.recommend(ratings, board)  # type: ignore[arg-type]


def test_an_explanation_sums_to_the_prediction(board: fedboard.Board) -> None:
    own = {"1": 5.0, "2": 1.0, "3": 4.0}
    item = fedboard.recommend(own, board, k=1)[0].item_id

    why = fedboard.explain(item, own, board)

    assert why.item_id == item
    assert why.total == pytest.approx(why.base + sum(part.added for part in why.influences))
    assert {part.item_id for part in why.influences} == {"1", "2", "3"}


def test_where_own_models_cannot_be_taken_apart_there_are_items_without_reasons(
    board: fedboard.Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = SimpleNamespace(regression=None)
    monkeypatch.setattr("fedboard.client.recommending.recommend.algorithm_of", lambda _: without)

    assert [one.reason for one in fedboard.recommend({"1": 5.0}, board, k=3)] == [None] * 3
