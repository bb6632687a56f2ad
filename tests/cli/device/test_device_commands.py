"""What a person does with her own device at the keyboard."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from fedboard.client.participation.config import load_device
from fedboard.client.ratings.store import OwnRating, RatingStore
from fedboard.common.board import Board

pytestmark = pytest.mark.slow

Command = Callable[..., Result]


@pytest.fixture
def device(fedboard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new device in the current folder, as the commands look for it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDBOARD_DEVICE", raising=False)
    result = fedboard("ratings", "init", "--epsilon", "3")
    assert result.exit_code == 0, result.output
    return tmp_path / "device.toml"


def ok(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def listed(fedboard: Command) -> dict[str, float]:
    found = json.loads(ok(fedboard("ratings", "list", "--json")))["ratings"]
    return {own["item"]: own["rating"] for own in found}


def newest(run: Path) -> Board:
    return Board.load(sorted((run / "boards").glob("*.board"))[-1])


def with_board(device: Path, run: Path) -> Board:
    """The device has fetched the run's newest board."""
    board = newest(run)
    cache = load_device(device).board_cache()
    (cache.folder / "arrived").write_bytes(board.to_bytes())
    cache.adopt(cache.folder / "arrived", digest=board.digest)
    return board


def test_ratings_are_added_changed_listed_and_removed(fedboard: Command, device: Path) -> None:
    assert ok(fedboard("ratings", "add", "7", "4.5")) == "added: 7  4.5\n"
    assert ok(fedboard("ratings", "add", "7", "2")) == "changed: 7  2\n"
    ok(fedboard("ratings", "add", "9"))
    assert listed(fedboard) == {"7": 2.0, "9": 1.0}
    assert "2 ratings" in ok(fedboard("ratings", "list"))
    ok(fedboard("ratings", "remove", "7"))
    assert listed(fedboard) == {"9": 1.0}
    assert fedboard("ratings", "remove", "7").exit_code == 2


def test_an_item_that_nobody_could_check_is_said_to_be_unchecked(
    fedboard: Command, device: Path, finished: Path
) -> None:
    unchecked = fedboard("ratings", "add", "nosuch", "4")
    with_board(device, finished)
    known, unknown = fedboard("ratings", "add", "7", "4"), fedboard("ratings", "add", "none such", "4")

    assert "nosuch is kept as it was typed: there is no board to look it up on" in unchecked.stderr
    assert (known.exit_code, known.stderr) == (0, "")
    assert (unknown.exit_code, "not in the board's catalogue" in unknown.stderr) == (2, True)


def test_a_file_is_imported_whole_or_not_at_all(fedboard: Command, device: Path) -> None:
    file = device.with_name("mine.csv")
    file.write_text("item,rating\n1,5\n2,1\n")
    assert ok(fedboard("ratings", "import", file)) == "2 ratings imported, 2 of them new; 2 in the store\n"
    file.write_text("item,rating\n3,5\n2,good\n")
    failed = fedboard("ratings", "import", file)
    assert (failed.exit_code, "line 3" in failed.stderr) == (2, True)
    assert listed(fedboard) == {"1": 5.0, "2": 1.0}


def test_an_export_is_its_owners_alone_and_keeps_what_is_there(
    fedboard: Command, device: Path, tmp_path: Path
) -> None:
    ok(fedboard("ratings", "add", "7", "4.5"))
    before = os.umask(0)
    try:
        ok(fedboard("ratings", "list", "--csv", "out.csv"))
    finally:
        os.umask(before)
    file = tmp_path / "out.csv"
    written = file.read_text()
    ok(fedboard("ratings", "add", "9", "1"))

    kept = fedboard("ratings", "list", "--csv", "out.csv")

    assert file.stat().st_mode & 0o777 == 0o600
    assert kept.exit_code == 2
    assert "something is there already and is kept" in kept.stderr
    assert file.read_text() == written
    assert fedboard("ratings", "list", "--csv", "/dev/null").exit_code == 2


def test_what_is_exported_is_imported_as_it_was(fedboard: Command, device: Path, finished: Path) -> None:
    for item, rating in (("1", "5"), ("2", "1.5")):
        ok(fedboard("ratings", "add", item, rating))
    ok(fedboard("ratings", "list", "--csv", "out.csv", "--board", finished))
    before = listed(fedboard)
    ok(fedboard("ratings", "remove", "--all", "--yes"))
    assert listed(fedboard) == {}
    ok(fedboard("ratings", "import", "out.csv"))
    assert listed(fedboard) == before
    assert ok(fedboard("ratings", "list", "--csv", "-")).startswith("item,rating,timestamp\n1,5,\n")


def test_items_are_named_by_title_where_there_is_a_board(
    fedboard: Command, device: Path, finished: Path
) -> None:
    board = with_board(device, finished)
    assert board.catalogue.titles is not None
    item, title = board.catalogue.item_ids[0], board.catalogue.titles[0]

    assert ok(fedboard("ratings", "add", title, "4")) == f"added: {title} [{item}]  4\n"
    assert title in ok(fedboard("ratings", "list"))
    assert fedboard("ratings", "add", item, "40").exit_code == 2
    assert fedboard("ratings", "add", "no such title", "4").exit_code == 2
    ok(fedboard("ratings", "remove", title))
    assert listed(fedboard) == {}


def test_deletion_takes_the_kept_answers_along_and_asks_first(fedboard: Command, device: Path) -> None:
    ok(fedboard("ratings", "add", "the-secret-item", "4"))
    answers = device.parent / "state" / "answers"
    answers.mkdir(parents=True)
    (answers / "0.answer").write_bytes(b"rows of the-secret-item")
    assert fedboard("ratings", "remove", "--all").exit_code != 0
    assert listed(fedboard) == {"the-secret-item": 4.0}

    assert ok(fedboard("ratings", "add", "another", "2")) == "added: another  2\n"
    ok(fedboard("ratings", "remove", "another"))
    assert list(answers.iterdir()) == []
    (answers / "0.answer").write_bytes(b"rows of the-secret-item")
    assert ok(fedboard("ratings", "remove", "--all", "--yes")) == "1 ratings and 1 kept answers deleted\n"
    files = [path for path in device.parent.rglob("*") if path.is_file()]
    assert not [path for path in files if b"the-secret-item" in path.read_bytes()]


def test_recommendations_are_the_same_from_csv_store_and_device(
    fedboard: Command, device: Path, secret: Path
) -> None:
    board = with_board(device, secret)
    file = device.with_name("mine.csv")
    file.write_text("item,rating\n1,5\n2,1\n")
    ok(fedboard("ratings", "import", file))

    from_csv = json.loads(ok(fedboard("recommend", file, secret, "--json")))
    from_store = json.loads(ok(fedboard("recommend", "ratings.sqlite", secret, "--json")))
    from_device = json.loads(ok(fedboard("recommend", "device.toml", "--json")))
    assert from_csv == from_store == from_device
    assert from_csv["board_digest"] == board.digest
    with RatingStore.open(Path("ratings.sqlite")) as store:
        store.put([OwnRating(item="not-on-the-board", rating=3.0)])
    assert "(1 more are not on it)" in ok(fedboard("recommend", "device.toml"))


def test_a_board_that_was_changed_is_not_recommended_from(
    fedboard: Command, tmp_path: Path, finished: Path
) -> None:
    (tmp_path / "mine.csv").write_text("item,rating\n1,5\n")
    board = newest(finished)
    factors = board.arrays["item_factors"] * 2
    changed = tmp_path / "changed.board"
    replace(board, arrays={**board.arrays, "item_factors": factors}, _digest=[]).save(changed)

    result = fedboard("recommend", tmp_path / "mine.csv", changed)
    assert result.exit_code == 2
    assert "not the one that its certificate states" in result.stderr


def test_an_explanation_adds_up_on_the_screen_and_in_json(
    fedboard: Command, device: Path, secret: Path
) -> None:
    with_board(device, secret)
    for item, rating in (("1", "5"), ("2", "1"), ("3", "4")):
        ok(fedboard("ratings", "add", item, rating))
    best = json.loads(ok(fedboard("recommend", "device.toml", "-k", "1", "--json")))["recommendations"][0]

    found = json.loads(ok(fedboard("explain", best["item_id"], "--json")))
    added = sum(part["added"] for part in found["influences"])
    assert found["base"] + added == pytest.approx(found["total"], abs=1e-12)
    assert found["prediction"] == pytest.approx(best["score"], abs=1e-6)
    text = ok(fedboard("explain", best["item_id"], "device.toml", secret, "-k", "1"))
    assert "your 2 other ratings" in text
    assert "together" in text


def test_the_status_of_a_device_that_gave_nothing(fedboard: Command, device: Path, finished: Path) -> None:
    board = with_board(device, finished)
    ok(fedboard("ratings", "add", "1", "5"))

    text = ok(fedboard("status"))
    assert "This device holds 1 rating." in text
    assert "epsilon 0 of 3 at delta 1e-06 (add-remove); 3 left" in text
    found = json.loads(ok(fedboard("status", "--json")))
    assert found["epsilon"] == {"spent": 0.0, "limit": 3.0, "left": 3.0}
    assert [entry["digest"] for entry in found["boards"]] == [board.digest]
    assert len(found["boards"][0]["catalogue"]) == 64
    assert found["boards"][0]["rounds"]["lost"] == 0


def test_commands_name_what_is_missing(
    fedboard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (("ratings", "list"), ("status",), ("explain", "1"), ("recommend", "device.toml")):
        result = fedboard(*command)
        assert result.exit_code == 2
        assert "make one with `fedboard ratings init`" in result.stderr
    (tmp_path / "mine.csv").write_text("item,rating\n1,5\n")
    assert "give a board too" in fedboard("recommend", "mine.csv").stderr
    assert fedboard("ratings", "init", ".").exit_code == 0
    without = fedboard("recommend", "device.toml")
    assert without.exit_code == 2
    assert "this device has no board yet; get one with `fedboard board fetch`" in without.stderr


def test_a_title_that_was_typed_before_any_board_is_listed_changed_and_removed_by_it(
    fedboard: Command, device: Path, secret: Path
) -> None:
    board = newest(secret)
    title = board.catalogue.titles[7]
    other = board.catalogue.titles[9]
    ok(fedboard("ratings", "add", title, "4"))
    ok(fedboard("ratings", "add", other, "2"))
    with_board(device, secret)

    text = ok(fedboard("ratings", "list"))
    assert f"{title}  {board.catalogue.item_ids[7]} " in text.replace("   ", "  ").replace("   ", "  ")
    assert "the board can use 2 of them" in text
    assert json.loads(ok(fedboard("recommend", "device.toml", "--json")))["recommendations"]
    assert ok(fedboard("ratings", "add", title, "5")).startswith("changed: ")
    assert listed(fedboard) == {board.catalogue.item_ids[7]: 5.0, other: 2.0}
    ok(fedboard("ratings", "remove", board.catalogue.item_ids[9]))
    assert listed(fedboard) == {board.catalogue.item_ids[7]: 5.0}
