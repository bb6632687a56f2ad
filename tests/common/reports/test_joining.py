"""The page's modules become one script, and nothing that a browser would read otherwise."""

import posixpath
import re
from importlib.resources.abc import Traversable
from pathlib import Path

import pytest

from fedboard.client.page.writing import script_folder
from fedboard.common.reports.filling import joined_script, script_modules, shared_script


def folder(place: Path, **modules: str) -> Path:
    for name, text in modules.items():
        (place / f"{name}.js").write_text(text, encoding="utf-8")
    return place


def test_each_module_stands_once_after_what_it_needs(tmp_path: Path) -> None:
    place = folder(
        tmp_path,
        main='import { one } from "./one.js";\nimport {\n  two,\n} from "./two.js";\n\none(two);\n',
        one='import { two } from "./two.js";\n\nexport function one() {\n  return two;\n}\n',
        two="export const two = 2;\n",
    )

    assert joined_script(place) == "const two = 2;\n\n\nfunction one() {\n  return two;\n}\n\n\none(two);\n"


TOP = re.compile(r"^(export )?(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)
IMPORTED = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
NOT_JOINED = re.compile(r"^(?:import|export)\b|</script|<!--", re.MULTILINE)


def problems(place: Traversable) -> list[str]:
    """Why a page's modules cannot be one script."""
    found, owners, seen = list[str](), dict[str, str](), set[str]()
    modules = script_modules(place)
    for name, text in modules.items():
        for names, path in IMPORTED.findall(text):
            other = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            exported = {own for export, own in TOP.findall(modules[other]) if export}
            missing = {one.strip() for one in names.split(",") if one.strip()} - exported
            found += [f"{name} imports {one}, which {other} does not export" for one in missing]
            found += [] if other in seen else [f"{name} and {other} import each other"]
        found += [f"{own} is in {owners[own]} and in {name}" for _, own in TOP.findall(text) if own in owners]
        owners |= dict.fromkeys((own for _, own in TOP.findall(text)), name)
        seen.add(name)
    return found + NOT_JOINED.findall(joined_script(place))


def test_the_pages_modules_can_be_joined() -> None:
    assert len(script_modules(script_folder())) > 20
    assert problems(script_folder()) == []


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ("const one = 2;\nexport const two = one;\n", "one is in second.js and in main.js"),
        ("export const three = 3;\n", "main.js imports two, which second.js does not export"),
        ("export default 2;\nexport const two = 2;\n", "export"),
        ("export const two = '</script>';\n", "</script"),
    ],
)
def test_what_cannot_be_joined_is_noticed(tmp_path: Path, second: str, problem: str) -> None:
    place = folder(
        tmp_path, main='import { two } from "./second.js";\nexport const one = two;\n', second=second
    )

    assert problems(place) == [problem]


def test_what_is_shared_comes_from_here_and_not_from_the_pages_folder(tmp_path: Path) -> None:
    place = folder(tmp_path, main='import { part } from "./shared/dom.js";\n\npart("x");\n')

    script = joined_script(place)

    assert script.startswith((shared_script() / "dom.js").read_text(encoding="utf-8").splitlines()[0])
    assert "export" not in script
    assert script.endswith('part("x");\n')
