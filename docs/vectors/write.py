"""Write the test vectors of ``docs/reader-specification.md`` into this folder, from the package itself.

usage: python docs/vectors/write.py           # writes models.json, refusals.json and reasons.json
       python docs/vectors/write.py --check   # exit code 1 if they are not what would be written

Boards are made up from a fixed stream of random numbers: nobody's ratings are behind them, and no noise. They are
signed with a key that anybody can compute, so that no reader may ever pin it. What is expected of a reader the
package itself said. Last digits of numbers may differ between versions of numpy, so ``--check`` compares to 1e-9.
"""

import argparse
import base64
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from cases import cases
from making import CONFIGURATIONS, KEY, SIMULATION, boards, packed_file, plain, signed_chain

from fedboard.client.ratings.own_file import own_ratings
from fedboard.client.recommending.recommend import rating_range_of, reason_of, recommend
from fedboard.common.algorithms.registry import rebuild_task
from fedboard.common.board import Board

HERE = Path(__file__).parent
TOP = 20
_CLOSE = 1e-9
_OF_THE_VERSION = ("software",)
"""What differs from release to release, and with it what is hashed or signed of it."""
_HASHED = (
    "digest",
    "certificate_digest",
    "signature",
    "sha256",
    "board_sha256",
    "packed",
    "size",
    "board_size",
    "file",
    "files",
    "previous_manifest",
)

PEOPLE: Mapping[str, Mapping[str, float]] = {
    "several": {"f01": 5.0, "f08": 1.0, "f03": 4.0, "f30": 2.5, "f22": 4.0},
    "one": {"f12": 2.0},
}


STARS = (1.0, 5.0)
MOVED: tuple[tuple[float, tuple[float, ...], tuple[float, float] | None], ...] = (
    (4.52, (0.24, -0.258), STARS),
    (4.51, (0.165, -0.274), STARS),
    (4.31, (0.3215, -0.2432), STARS),
    (3.0, (0.04, 0.0), STARS),
    (3.0, (0.041, 0.0), STARS),
    (3.0, (-0.3, -0.2, 0.1), STARS),
    (3.0, (0.2, 0.2), STARS),
    (3.0, (-0.2, -0.2), STARS),
    (3.0, (), STARS),
    (3.0, (0.05,), (0.0, 100.0)),
    (0.0, (1e-6, 2e-6), None),
    (0.0, (0.0, 0.0), None),
    (0.0, (), None),
    (50.0, (0.3,), None),
    (-2.0, (0.5, -1.0, -1.0), None),
)
"""What the board alone says of an item, what each own rating adds, and the range; None for presence."""


def reason_vector(
    base: float, added: tuple[float, ...], rating_range: tuple[float, float] | None
) -> dict[str, Any]:
    """Why an item has its score, in short."""
    effect, net, rated = reason_of(base, added, rating_range)
    wanted = {"effect": str(effect), "net": net, "rated": rated}
    return {"base": base, "added": list(added), "range": rating_range and list(rating_range), **wanted}


def model_vector(name: str) -> dict[str, Any]:
    """One board with what a reader must make of it."""
    made = boards(name)
    board, certificate = made[-1], made[-1].certificate or {}
    *earlier, newest = signed_chain(made[1:])
    simulation = name == SIMULATION
    return {
        "name": name,
        "signed": plain(newest),
        "earlier": [plain(before) for before in reversed(earlier)],
        "packed": base64.b64encode(packed_file(board.to_bytes())[0]).decode(),
        "expected": {
            "task": board.task,
            "version": board.version,
            "digest": board.digest,
            "arrays": {
                array: {
                    "dtype": value.dtype.newbyteorder("<").str,
                    "shape": list(value.shape),
                    "sum": float(value.sum()),
                }
                for array, value in board.arrays.items()
            },
            "mu": certificate["composition"]["mu"],
            "epsilon": certificate["composition"]["epsilon"],
            "seal": {"signature": "passed", "bytes": "passed", "chain": "passed", "promise": "passed"}
            | {"noise": "failed" if simulation else "passed"},
        },
        "people": {who: person(board, ratings) for who, ratings in PEOPLE.items()},
    }


def person(board: Board, ratings: Mapping[str, float]) -> dict[str, Any]:
    """Her own vector and her twenty best items."""
    rows = [("", item, rating) for item, rating in ratings.items()]
    own = own_ratings(rows, board.catalogue, rating_range=rating_range_of(board))
    vector = rebuild_task(board).fit_local(own, board)[0]
    best = recommend(own, board, k=TOP)
    gaps = np.diff([one.score for one in recommend(own, board, k=TOP + 1) if one.score < 5.0])
    assert not gaps.size or abs(gaps).min() > 1e-6, "two items are too close to say which is first"
    return {
        "ratings": dict(ratings),
        "vector": [float(number) for number in vector],
        "top": [[one.item_id, one.score] for one in best],
    }


def written() -> dict[str, Any]:
    """All files."""
    key = KEY.public.raw.hex()
    models = [model_vector(name) for name in CONFIGURATIONS]
    return {
        "models.json": {"key": key, "boards": models},
        "refusals.json": {"key": key, **cases()},
        "reasons.json": {"cases": [reason_vector(*moved) for moved in MOVED]},
    }


def alike(found: Any, wanted: Any, key: str = "") -> bool:
    """Whether two values are the same but for last digits of numbers, and what follows from the version."""
    if key in _OF_THE_VERSION or key in _HASHED:
        return type(found) is type(wanted)
    if key == "content":
        return alike(json.loads(found), json.loads(wanted))
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(alike(found[name], wanted[name], name) for name in found)
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(alike, found, wanted))
    if isinstance(found, float) and isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=_CLOSE, abs_tol=_CLOSE)
    return bool(found == wanted)


def main() -> int:
    """Write, or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for name, content in written().items():
        if not check:
            (HERE / name).write_text(
                json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )
        elif not alike(content, json.loads((HERE / name).read_text(encoding="utf-8"))):
            print(f"{name} is not what this version gives; run python docs/vectors/write.py", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
