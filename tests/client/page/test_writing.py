"""What a page's policy may hold, what is filled into its text, and that every module is in its script."""

from pathlib import Path

from fedboard.client.page.boards import HeldBoard, known_tasks, script_folder
from fedboard.client.page.writing import page_of
from fedboard.common.reports.filling import joined_script
from tests.common.boards.boards import chain


def test_a_name_is_no_slot_and_no_markup() -> None:
    board = chain(1)[0]
    held = HeldBoard(board=board, label="{{script}}<b>&", file=board.to_bytes())

    page = page_of(held, key=None)

    assert page.count("{{script}}&lt;b&gt;&amp;") == 2
    assert "<b>&" not in page
    assert "connect-src 'none'; img-src data:; base-uri 'none'" in page


def test_no_module_is_left_out_and_none_writes_markup() -> None:
    script = joined_script(script_folder())

    for path in sorted(Path(str(script_folder())).rglob("*.js")):
        first = path.read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith("// ")
        assert script.count(first) == 1, f"{path.name} is not part of the page"
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert way not in script


def test_the_registry_lists_the_tasks_whose_models_are_known() -> None:
    assert set(known_tasks()) >= {"adadpals", "adadpsgd", "langevin", "residual"}
