"""What the site is held to finds what it should find: each check fails on a page that breaks it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.website import DOCS, ROOT, module, script

NAVIGATION = """
[[groups]]
title = "Start"
pages = ["index.md", ["guide.md", "The \\"guide\\""]]

    [[groups.groups]]
    title = "Decisions"
    pages = ["decisions/[0-9]*.md"]
"""
PAGES = ("index.md", "guide.md", "decisions/0001-a.md", "decisions/0002-b.md", "source/a.py.md")


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


def test_style_sheets_and_pictures_ask_nobody_either(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("p{background:url(https://example.org/a.png)}", encoding="utf-8")
    (tmp_path / "a.svg").write_text(
        '<svg><style>@import "//example.org/a.css"</style></svg>', encoding="utf-8"
    )

    assert len(module("checks").faults(tmp_path)) == 2


def test_the_navigation_names_each_page_once(tmp_path: Path) -> None:
    file = tmp_path / "navigation.toml"
    file.write_text(NAVIGATION, encoding="utf-8")

    written = module("navigation").navigation(file, PAGES)

    assert written == (
        '[{"Start" = ["index.md", {"The \\"guide\\"" = "guide.md"}, '
        '{"Decisions" = ["decisions/0001-a.md", "decisions/0002-b.md"]}]}]'
    )


@pytest.mark.parametrize(
    ("pages", "more", "fault"),
    [
        ((*PAGES, "new.md"), "", "new.md is not in navigation.toml"),
        (PAGES[1:], "", "navigation.toml names index.md, which is not there"),
        (
            PAGES,
            '[[groups]]\ntitle = "Again"\npages = ["decisions/0001-a.md"]',
            "decisions/0001-a.md 2 times",
        ),
    ],
)
def test_a_page_without_a_place_is_refused(
    pages: tuple[str, ...], more: str, fault: str, tmp_path: Path
) -> None:
    file = tmp_path / "navigation.toml"
    file.write_text(NAVIGATION + more, encoding="utf-8")

    with pytest.raises(module("navigation").NavigationError, match=fault):
        module("navigation").navigation(file, pages)


def test_links_of_a_code_host_become_those_of_the_site() -> None:
    shown: set[Path] = set()
    text = (
        "[a](privacy.md#the-promise) [b](../decisions/) [c](../../common/task.py) [d](../notebooks/first-run.py) "
        "[e](../../README.md) [f](../../CHANGELOG.md) [g](https://example.org) [h](#here) `[i](nowhere.md)`\n"
        "```\n[j](nowhere.md)\n```\n"
    )

    told = module("staging").on_the_site(text, DOCS / "guide" / "noise.md", "guide/noise.md", shown)

    assert told == (
        "[a](privacy.md#the-promise) [b](../decisions/index.md) [c](../source/common/task.py.md) "
        "[d](../notebooks/first-run.md) [e](../index.md) [f](../changelog.md) [g](https://example.org) [h](#here) "
        "`[i](nowhere.md)`\n```\n[j](nowhere.md)\n```\n"
    )
    assert shown == {ROOT / "common" / "task.py"}


def test_lists_and_tables_stand_apart_from_the_text_before_them() -> None:
    text = "Text:\n- a\n- b\n\n1. c\n\nMore:\n| d |\n|---|\n\n```\ncode:\n- e\n```\nin 5 or at\n2. F\n"

    assert module("staging").apart(text) == (
        "Text:\n\n- a\n- b\n\n1. c\n\nMore:\n\n| d |\n|---|\n\n```\ncode:\n- e\n```\nin 5 or at\n2. F\n"
    )


def test_a_link_to_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(FileNotFoundError, match=r"docs/guide/noise.md links to nowhere.md"):
        module("staging").on_the_site("[x](nowhere.md)", DOCS / "guide" / "noise.md", "guide/noise.md", set())


def test_a_folder_that_is_no_site_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine", encoding="utf-8")
    build = script("build.py")

    with pytest.raises(build["BuildError"], match="not empty and no site"):
        build["build"](tmp_path, draft=True)
    assert (tmp_path / "precious.txt").exists()


def test_without_the_extra_the_build_says_what_to_install(tmp_path: Path) -> None:
    command = [sys.executable, "-S", str(DOCS / "build.py"), "--out", str(tmp_path / "site")]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 2
    assert "zensical" in done.stderr
    assert "pip install -e '.[all,docs]'" in done.stderr
    assert not (tmp_path / "site").exists()


def test_the_pictures_of_the_first_page_say_what_the_table_says() -> None:
    drawing = script("draw_first_page.py")

    for name, draw in drawing["PICTURES"].items():
        assert (DOCS / name).read_text(encoding="utf-8") == draw(), "run python docs/draw_first_page.py"
    epsilons, rows = drawing["measured"]("ml-1m")
    assert epsilons == [0.5, 1.0, 5.0, 20.0]
    assert [len(row) for row in rows.values()] == [5, 4, 4]
