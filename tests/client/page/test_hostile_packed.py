"""Packed boards that are no boards, as the page's own reader takes them."""

import base64
import gzip
import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NODE = shutil.which("node")
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


@pytest.mark.skipif(NODE is None, reason="JavaScript without a browser needs Node.js")
def test_a_packed_board_is_just_as_long_as_was_stated_or_left() -> None:
    module, size = (ROOT / "client" / "page" / "script" / "board" / "bytes.js").as_uri(), 5_000
    made = [bytes(size), bytes(20_000_000), bytes(size - 1)]
    packed = [*map(gzip.compress, made), gzip.compress(bytes(size)) + b"more", bytes(size)]
    given = json.dumps({"files": [base64.b64encode(one).decode() for one in packed], "size": size})

    ended = subprocess.run(
        [str(NODE), "--input-type=module", "-e", SCRIPT, module, given],
        capture_output=True,
        text=True,
        timeout=60,
    )

    read, more, less, *others = json.loads(ended.stdout)
    assert (read, more) == ("read", "more was packed than was stated")
    assert less == "less was packed than was stated"
    assert "read" not in others
