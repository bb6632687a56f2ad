"""``import fedboard``: every name is there, typed, looked up when it is used; what runs and boards look like."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

import fedboard
from fedboard.common.privacy.shown import table_html


@pytest.mark.parametrize("name", [*fedboard.__all__, "__version__"])
def test_every_name_that_is_offered_is_there(name: str) -> None:
    assert getattr(fedboard, name) is not None
    assert name in dir(fedboard)


def test_what_is_not_offered_says_what_is() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'recomend'; it offers .*recommend"):
        _ = fedboard.recomend  # type: ignore[attr-defined]


def test_the_import_loads_no_library() -> None:
    """Counted in modules, not in seconds: nothing beyond the standard library comes with the name alone."""
    heavy = {"numpy", "scipy", "click", "msgspec", "cryptography", "fedboard.common"}
    code = f"import sys; import fedboard; print(sorted({heavy} & set(sys.modules)))"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def run(run_place: Path) -> fedboard.Run:
    return fedboard.Run.load(run_place)


def test_each_is_one_line_with_a_verdict(run: fedboard.Run) -> None:
    for shown in (repr(run), repr(run.board), repr(run.certificate)):
        assert "\n" not in shown
        assert "NOT PRIVATE: the noise can be reproduced from its seed" in shown
    assert "(5, 1e-05)-differential privacy for each user" in repr(run.certificate)
    assert run.board.digest[:12] in repr(run.board)


def test_a_notebook_gets_a_table_of_public_facts_alone(run: fedboard.Run) -> None:
    for thing in (run, run.board, run.certificate):
        html = thing._repr_html_()
        assert html.startswith("<div>")
        assert html.endswith("</div>")
        assert "NOT PRIVATE" in html
    for shown in (repr(run), run._repr_html_()):
        for value in run.metrics.values():
            assert f"{value:.3f}" not in shown
            assert str(value) not in shown


def test_a_changed_board_or_certificate_is_never_called_private(run: fedboard.Run) -> None:
    other = dataclasses.replace(run.board, version=7, _digest=[])
    bare = dataclasses.replace(run.board, certificate=None)
    claim = dataclasses.replace(run.certificate.claim, epsilon=0.1)
    lowered = dataclasses.replace(run.certificate, claim=claim)
    flagged = dataclasses.replace(run.certificate, private=True)

    assert "NOT PROVEN: its certificate is for another board" in repr(other)
    assert "NOT PRIVATE: no certificate" in repr(bare)
    assert "NOT PROVEN: this certificate does not hold" in repr(lowered)
    assert "private:" not in repr(flagged)


def test_a_board_with_secret_noise_is_called_private(tmp_path: Path) -> None:
    made_up = {"synthetic": {"n_users": 60, "n_items": 30, "mean_ratings_per_user": 10.0}}
    run = fedboard.simulate(
        data=made_up, noise="secure", rank=2, rounds=1, baselines=False, report=False, out=tmp_path / "run"
    )

    assert run.verify()
    for shown in (repr(run), repr(run.board), repr(run.certificate)):
        assert "; private: no seed reproduces the noise" in shown
        assert "NOT" not in shown


def test_markup_in_a_name_is_shown_as_text() -> None:
    html = table_html("<b>x", "private; <i>unchecked", [("<script>", "a & b")])

    assert "<script>" not in html
    assert "<i>" not in html
    assert "&lt;script&gt;" in html
    assert "#b42318" in html
