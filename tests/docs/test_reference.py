"""The two pages that are written from the code have every command, option and key."""

import tomllib
from collections.abc import Iterator
from typing import Any

import click

from fedboard.cli.main import commands
from tests.docs.website import ROOT, module
from tests.walk import leaves


def keys(table: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in table.items():
        yield from keys(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}"]


def test_the_page_of_commands_has_every_option_and_what_it_is_for() -> None:
    page = module("reference").commands_page()

    for path, command in leaves(commands).items():
        section = page.partition(f"\n## {' '.join(path)}\n")[2].partition("\n## ")[0]
        flags = [one.opts[-1] for one in command.params if isinstance(one, click.Option)]
        assert [flag for flag in flags if flag not in section] == [], path


def test_the_page_of_the_configuration_has_each_key_with_its_range_and_default() -> None:
    page = module("reference").configuration_page()

    assert "| `privacy.epsilon` | number | `5.0` |" in page
    assert "| `run.kernels` | `auto`, `numpy`, `compiled` | `auto` | Which code computes" in page
    assert "## Settings of `representation`" in page
    written = tomllib.loads((ROOT / "examples" / "simulate.toml").read_text(encoding="utf-8"))
    assert [key for key in keys(written) if not key.startswith(("settings.", "data.synthetic."))] != []
    for key in keys(written):
        known = key.removeprefix("settings.") if key.startswith("settings.") else key
        assert f"| `{known}` |" in page or known.startswith("data.synthetic."), key
