"""The digests of small runs: a kept one that is changed is named, and runtimes that agree are kept as equal."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "same_boards.py"
ROWS = "private,trusted / memory"


def compared(kept: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and record of the script."""
    told = kept.with_suffix(".told")
    options = ["--only", ROWS, "--kept", str(kept), "--json", str(told), *words]
    done = subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, check=False)
    return done.returncode, json.loads(told.read_text())


@pytest.mark.slow
def test_a_kept_number_that_was_changed_is_named_with_its_row(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    assert compared(kept, "--write")[0] == 0
    written = json.loads(kept.read_text())
    mean, means, biases, popularity = (
        f"private {name} / trusted / memory" for name in ("mean", "item means", "biases", "popularity")
    )
    rows = json.loads(kept.read_text())["rows"]
    assert set(rows) == {mean, means, biases, popularity}
    rows[mean]["arrays"] = rows[means]["arrays"]
    rows[biases]["claim"][2] *= 1 + 1e-15
    rows[means]["metrics"]["test_rmse"] *= 1 + 1e-9
    rows[popularity]["metrics"] = {
        name: value * (1 + 1e-15) for name, value in rows[popularity]["metrics"].items()
    }
    rows["a row of once"] = rows[popularity]
    kept.write_text(json.dumps({**written, "rows": rows}))

    code, told = compared(kept)

    assert code == 1
    assert (told["rows"], told["equal"]) == (4, 1)
    gone, *unlike = told["differences"]
    assert gone.startswith("a row of once: in the kept file")
    assert [
        line[: line.index(" ", len(row) + 2)] for row, line in zip((mean, means, biases), unlike, strict=True)
    ] == [f"{mean}: arrays", f"{means}: metrics", f"{biases}: claim"]


def test_the_kept_boards_of_an_algorithm_are_the_same_wherever_it_ran() -> None:
    rows = json.loads(SCRIPT.with_suffix(".json").read_text(encoding="utf-8"))["rows"]
    for start in ("residual / trusted / ", "topk / trusted / ", "langevin / trusted / "):
        one, *others = [
            row for name, row in rows.items() if name.startswith(start) and not name.endswith("fleet")
        ]
        assert len(others) >= 2
        assert all(other == one for other in others)
