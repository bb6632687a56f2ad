"""Packed boards that are no boards, as the page's own reader takes them."""

import base64
import json
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
NODE = shutil.which("node")
SIZE = 5_000
SCRIPT = """
const { unpacked } = await import(process.argv[1]);
const { files, size } = JSON.parse(process.argv[2]);
const told = [];
for (const file of files) {
  const bytes = new Uint8Array(Buffer.from(file, "base64"));
  told.push(await unpacked(bytes, size).then(() => "read", (error) => error.message));
}
console.log(JSON.stringify(told));
"""

pytestmark = pytest.mark.skipif(NODE is None, reason="JavaScript without a browser needs Node.js")


def packed(*sizes: Any) -> str:
    """A file of arrays that state these sizes, each with a million zeros in it."""
    header = json.dumps({f"array/{number}": {"dtype": "U8"} for number in range(len(sizes))})
    zeros = zlib.compress(bytes(1_000_000))
    parts = [
        {"name": f"array/{number}", "form": "exact", "size": size, "packed": len(zeros)}
        for number, size in enumerate(sizes)
    ]
    plain = json.dumps({"header": header, "parts": parts}).encode()
    contents = zlib.compress(plain)
    lengths = len(contents).to_bytes(4, "little") + len(plain).to_bytes(4, "little")
    return base64.b64encode(b"FBPACK1\n" + lengths + contents + zeros * len(sizes)).decode()


def left_of(header_of: int) -> int:
    header = json.dumps({f"array/{number}": {"dtype": "U8"} for number in range(header_of)})
    return SIZE - 8 - len(header)


def told(*files: str) -> list[str]:
    module = (ROOT / "client" / "page" / "script" / "board" / "packed.js").as_uri()
    command = [str(NODE), "--input-type=module", "-e", SCRIPT, module]
    ended = subprocess.run(
        [*command, json.dumps({"files": files, "size": SIZE})], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    found: list[str] = json.loads(ended.stdout)
    return found


def test_no_array_makes_room_for_another_by_a_size_below_zero() -> None:
    left = left_of(2)
    files = [packed(2_000_000 + left, -2_000_000), packed(left + 0.5, -0.5), packed(str(left), 0)]

    assert told(*files) == ["an array of no size"] * 3


def test_an_array_that_is_longer_than_it_says_is_left_at_its_size() -> None:
    assert told(packed(left_of(1))) == ["more was packed than was stated"]
