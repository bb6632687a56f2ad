"""Certificates with one thing in them changed: the page's verifier says of each what Python says."""

import base64
import gzip
import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.accounting.exact import epsilon_when_adaptive
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.commitment import Commitment
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.releases.noise import SeededNoise
from tests.client.page import certificates
from tests.common.certificates import ACCOUNT, certificate_of, questions
from tests.thorough import is_thorough

ROOT = Path(__file__).parents[3]
NODE = shutil.which("node")
ONLY_IN_SENTENCES = {
    ("claim", "epsilon"): "a larger one, which promises less than is shown",
    ("releases",): "how many of the planned ones are made",
    ("releases", 0): "the same",
    ("rounds",): "how many rounds came to something",
    ("rounds", "planned"): "the same",
    ("rounds", "made"): "the same",
    ("rounds", "lost"): "the same",
    ("population",): "what all runs on the same people cost together, as far as it still adds up",
    **{("population", name): "the same" for name in ("budget", "committed", "delta", "population")},
    **{("population", name): "the same" for name in ("private", "runs")},
    ("statements",): "the sentences themselves, which the page does not show",
    ("statements", 0): "the same",
}
"""The places that may change on the page and not in Python, which makes the sentences anew from the numbers."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NODE is None, reason="JavaScript without a browser needs Node.js"),
]


def real() -> dict[str, dict[str, Any]]:
    """Certificates as trainings and questions make them."""
    vector = json.loads((ROOT / "docs" / "vectors" / "models.json").read_text(encoding="utf-8"))["boards"][0]
    board = Board.from_bytes(
        np.frombuffer(gzip.decompress(base64.b64decode(vector["packed"])), dtype=np.uint8)
    )
    made = {
        "of a board": Certificate.from_dict(dict(board.certificate or {})),
        "of a training": certificate_of(population=ACCOUNT),
        "noise in shares": certificate_of(protocol="distributed-dp"),
        "seeded": certificate_of(noise=SeededNoise(3)),
        "of questions": questions(),
    }
    return certificates.sound() | {kind: json.loads(one.to_json()) for kind, one in made.items()}


def of_the_page(made: list[dict[str, Any]], folder: Path) -> list[str]:
    """What its verifier says of each: passed, failed or open."""
    texts = folder / "certificates.json"
    texts.write_text(json.dumps(list(map(certificates.on_a_board, made))), encoding="utf-8")
    command = [str(NODE), str(Path(__file__).with_name("edits.mjs")), str(ROOT), str(texts)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found: list[str] = json.loads(ended.stdout)
    return found


def test_of_each_edit_page_and_python_say_the_same(tmp_path: Path) -> None:
    """Both take every certificate as it is; what Python refuses the page refuses, or does not vouch for."""
    made = [(kind, (), "", plain) for kind, plain in real().items()]
    seen = set[tuple[Any, str]]()
    for kind, plain in real().items():
        for path, how, edited in certificates.edits(plain):
            if is_thorough() or (path, how) not in seen:  # of each edit one certificate is enough
                made.append((kind, path, how, edited))
            seen.add((path, how))

    found = of_the_page([plain for *_, plain in made], tmp_path)

    wrong = []
    for (kind, path, how, plain), here in zip(made, found, strict=True):
        there = "passed" if certificates.holds(json.loads(certificates.on_a_board(plain))) else "failed"
        if not how:
            assert (there, here) == ("passed", "open" if kind == "of questions" else "passed"), kind
        if here == "open":  # it takes loss distributions
            assert kind == "of questions" or how == "type mechanism", (kind, path, how)
            continue
        if (there, here) == ("failed", "passed") and path in ONLY_IN_SENTENCES:
            failed = {one.check for one in Certificate.from_dict(plain).verify() if not one.passed}
            assert failed == {"statements"}, (kind, path, how)
        elif there != here:
            wrong.append((kind, ".".join(map(str, path)), how, f"python {there}", f"page {here}"))

    assert wrong == [], f"{len(wrong)} of {len(made)}"
    assert len(made) > (9000 if is_thorough() else 1500)
    assert Counter(found)["failed"] > 0.7 * len(made)


def test_without_a_plan_what_the_budget_bears_holds_and_one_release_more_does_not(tmp_path: Path) -> None:
    events = [certificates.release(number, Adjacency.ADD_REMOVE) for number in range(4)]
    counted = epsilon_when_adaptive(events[:3], 1e-6)
    budget = Commitment.of(Budget(epsilon=counted, delta=1e-6, adjacency=Adjacency.ADD_REMOVE))
    sound = certificates.certificate(events[:3], budget)
    more = sound | {"releases": events}
    more["digest"] = digest({key: value for key, value in more.items() if key != "digest"})

    assert (certificates.holds(sound), certificates.holds(more)) == (True, False)
    assert of_the_page([sound, more], tmp_path) == ["passed", "failed"]
