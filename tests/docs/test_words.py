"""One spelling of each idea, and no word that sells: README, docs, every help text. Decisions stay as they were."""

import re
from pathlib import Path
from typing import Any

import pytest

from fedboard.cli.main import commands

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "decisions" not in path.parts),
]
INSTEAD = {
    r"data ?sets?\b(?<!data set)(?<!data sets)": "data set",
    r"hyper ?parameters?": "hyper-parameter",
    r"dataframes?": "data frame",
    r"trade ?offs?\b": "trade-off",
    r"filenames?\b": "file name",
    r"web ?sites?\b": "site",
    r"can not\b": "cannot",
    r"behaviors?\b": "behaviour",
    r"colors?\b": "colour",
    r"(?:normal|optim|minim|maxim|random|anonym|personal|quant|regular|initial)iz(?:e|ed|es|ing|ation)\b": "-ise",
    r"analyz(?:e|ed|es|ing)\b": "analyse",
    r"catalogs?\b": "catalogue",
    r"non-?private\b": "without privacy",
    r"embeddings?\b": "vector, own vector",
    r"top k\b": "top-k",
    r"rényi": "Renyi",
    "[εδμρ]": "epsilon, delta, mu, rho",
    r"user level\b": "user-level",
    r"secure aggregation": "secure sum, or the protocol's name",
    r"differentially-private|differential-privacy\b": "no hyphen",
    r"(?:seamless|blazing|effortless|state[- ]of[- ]the[- ]art|world-class|powerful|utili[sz]e)\w*": "leave it out",
}
"""What is not written, and what is written in its place."""
NAMES = ("SuperLink", "MovieLens", "AdaDPALS", "AdaDPSGD", "ServerApp", "NumPy")
"""Written so and in no other way."""


def prose(text: str) -> str:
    """Without code, addresses and what is quoted as a title."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`|\]\([^)]*\)|https?://\S+|<[^>]*>|\*[^*\n]+\*", "", text)


def told(command: Any, name: str = "fedboard") -> dict[str, str]:
    """The help of a command and of all below it."""
    parts = [
        command.help,
        command.short_help,
        command.epilog,
        *(getattr(p, "help", "") for p in command.params),
    ]
    found = {f"{name} --help": "\n".join(part for part in parts if part)}
    for below, one in getattr(command, "commands", {}).items():
        found |= told(one, f"{name} {below}")
    return found


TEXTS = {path.relative_to(ROOT).as_posix(): prose(path.read_text(encoding="utf-8")) for path in PAGES}
TEXTS |= told(commands)


@pytest.mark.parametrize("pattern", INSTEAD)
def test_each_idea_has_one_spelling(pattern: str) -> None:
    found = [
        f"{name}: {match[0]!r}, write {INSTEAD[pattern]!r}: {text[max(0, match.start() - 30) : match.end() + 20]!r}"
        for name, text in TEXTS.items()
        for match in re.finditer(rf"(?i)(?<![\w./-]){pattern}", text)
    ]

    assert found == []


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_written_as_it_is(name: str) -> None:
    found = [
        (where, match[0])
        for where, text in TEXTS.items()
        for match in re.finditer(rf"(?i)(?<![\w./-]){name}(?![\w./-])", text)
        if match[0] not in (name, name.lower())  # in small letters it is the name of a package
    ]

    assert found == []


def test_all_texts_are_looked_at() -> None:
    assert {"README.md", "docs/guide/privacy.md", "fedboard simulate --help"} <= TEXTS.keys()
    assert len(TEXTS) > 80
    assert re.search(r"(?i)hyper ?parameters?", "a Hyperparameter")
