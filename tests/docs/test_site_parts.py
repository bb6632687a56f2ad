"""What the site is held to finds what it should find: each check fails on a page that breaks it."""

from pathlib import Path

import pytest

from tests.docs.website import DOCS, ROOT, module, script


def site(folder: Path, **pages: str) -> Path:
    for name, body in pages.items():
        (folder / f"{name}.html").write_text(f"<html><body>{body}</body></html>", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="missing.html">x</a>', "links to missing.html, which is not there"),
        ('<a href="other.html#nowhere">x</a>', "no such place on that page"),
        ('<a href="#nowhere">x</a>', "no such place on that page"),
        ('<img src="missing.png">', "loads missing.png, which is not there"),
        ('<img src="https://example.org/a.png">', "from another host"),
        ('<img srcset="other.html 1x, //example.org/b.png 2x">', "//example.org/b.png from another host"),
        ('<script src="https://example.org/a.js"></script>', "from another host"),
        ('<link rel="preconnect" href="https://fonts.example.org">', "from another host"),
        ('<iframe src="http://example.org"></iframe>', "from another host"),
        ('<p style="background:url(https://example.org/a.png)">x</p>', "from another host"),
        ('<style>@import "https://example.org/a.css";</style>', "from another host"),
        ('<style>p { background: url("https://example.org/a.png") }</style>', "from another host"),
        ('<form action="https://example.org"></form>', "from another host"),
    ],
)
def test_a_fault_of_a_page_is_found(body: str, fault: str, tmp_path: Path) -> None:
    found = module("checks").faults(site(tmp_path, index=body, other='<p id="here">x</p>'))

    assert len(found) == 1
    assert found[0].startswith("index.html ")
    assert fault in found[0]


def test_what_leads_somewhere_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "index.html").write_text(
        '<a href="../other.html#here%20now">x</a>', encoding="utf-8"
    )
    body = (
        '<a href="https://example.org">elsewhere</a> <a href="other.html#here">x</a> <a href="deep/">x</a> '
        '<a href="#top" id="top">x</a> <img src="data:image/png;base64,AA,=="> <a href="mailto:a@example.org">x</a>'
    )

    places = '<p id="here">x</p><p id="here now">x</p>'
    assert module("checks").faults(site(tmp_path, index=body, other=places)) == []


def test_links_of_a_code_host_become_those_of_the_site() -> None:
    shown: set[Path] = set()
    text = (
        "[a](privacy.md#the-promise) [b](../api/) [c](../../common/task.py) [d](../notebooks/first-run.py) "
        "[e](../../README.md) [f](../../CHANGELOG.md) [g](https://example.org) [h](#here) `[i](nowhere.md)`\n"
        "```\n[j](nowhere.md)\n```\n"
    )

    told = module("staging").on_the_site(text, DOCS / "guide" / "noise.md", "guide/noise.md", shown)

    assert told == (
        "[a](privacy.md#the-promise) [b](../api/index.md) [c](../source/common/task.py.md) "
        "[d](../notebooks/first-run.md) [e](../index.md) [f](../changelog.md) [g](https://example.org) [h](#here) "
        "`[i](nowhere.md)`\n```\n[j](nowhere.md)\n```\n"
    )
    assert shown == {ROOT / "common" / "task.py"}


def test_a_link_to_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(FileNotFoundError, match=r"docs/guide/noise.md links to nowhere.md"):
        module("staging").on_the_site("[x](nowhere.md)", DOCS / "guide" / "noise.md", "guide/noise.md", set())


def test_a_folder_that_is_no_site_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine", encoding="utf-8")
    build = script("build.py")

    with pytest.raises(build["BuildError"], match="not empty and no site"):
        build["build"](tmp_path, draft=True)
    assert (tmp_path / "precious.txt").exists()
