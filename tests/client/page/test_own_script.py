"""The board page's script holds every module of its folder, and none that writes markup."""

from pathlib import Path

from fedboard.client.page.boards import known_tasks, script_folder
from fedboard.common.wire.pages.filling import joined_script


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
