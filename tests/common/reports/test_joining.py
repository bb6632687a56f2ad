"""The page's modules become one script, and nothing that a browser would read otherwise."""

from pathlib import Path

import pytest

from fedboard.common.reports.filling import joined_script, shared_script


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


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ("const one = 2;\nexport const two = one;\n", "one is a name in second.js and in main.js"),
        ("export const three = 3;\n", "main.js imports two, which second.js does not export"),
        ('import { one } from "./main.js";\nexport const two = one;\n', "in a circle"),
        ("export default 2;\nexport const two = 2;\n", "second.js has 'export' in a form"),
        ("export const two = '</script>';\n", "second.js has '</script' in a form"),
    ],
)
def test_what_cannot_be_joined_is_refused(tmp_path: Path, second: str, problem: str) -> None:
    place = folder(
        tmp_path, main='import { two } from "./second.js";\nexport const one = two;\n', second=second
    )

    with pytest.raises(ValueError, match=problem):
        joined_script(place)


def test_what_is_shared_comes_from_here_and_not_from_the_pages_folder(tmp_path: Path) -> None:
    place = folder(tmp_path, main='import { part } from "./shared/dom.js";\n\npart("x");\n')

    script = joined_script(place)

    assert script.startswith((shared_script() / "dom.js").read_text(encoding="utf-8").splitlines()[0])
    assert "export" not in script
    assert script.endswith('part("x");\n')
