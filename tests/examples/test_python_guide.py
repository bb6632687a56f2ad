"""The Python that the README and the guide show runs as it stands, one block after the other."""

import re
from pathlib import Path

import pytest

import fedboard
from fedboard.simulations import simulate

ROOT = Path(__file__).parents[2]
SMALL = {"n_users": 300, "n_items": 60, "mean_ratings_per_user": 15.0}


def blocks(page: Path) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL))


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/guide/python.md"])
def test_the_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On fewer people, so that it takes seconds; everything else is as printed."""
    code = blocks(ROOT / page)
    code = code.replace(
        'data="synthetic"', f"data={{'synthetic': {SMALL}}}, rank=3, rounds=2, baselines=False"
    )
    code = code.replace('{"n_users": 2000, "n_items": 300}', str(SMALL))
    if page != "README.md":  # whose run has a report; five more take longer than all that is shown
        monkeypatch.setattr(simulate, "write_report", lambda run: run / "report.html")
    monkeypatch.chdir(tmp_path)

    exec(compile(code, page, "exec"), {"__name__": "__main__"})

    told = capsys.readouterr().out
    assert "checks passed" in told
    assert "NOT PRIVATE" in told


@pytest.mark.parametrize("page", ["README.md", "docs/guide/python.md", "examples/simulate.py"])
def test_the_page_uses_the_face_alone(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    assert not re.findall(r"^\s*(?:from fedboard|import fedboard\.)\S*", text, flags=re.MULTILINE)
    for name in re.findall(r"\bfedboard\.([a-zA-Z_]+)\(", text):
        assert name in fedboard.__all__
