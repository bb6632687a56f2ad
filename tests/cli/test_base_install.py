"""What a device needs works where only the base install is: no compiler, no plots, no accounting library."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import sys

EXTRAS = {"dp_accounting", "scipy", "flwr", "httpx", "jinja2", "llvmlite", "numba", "optuna"}
EXTRAS |= {"prometheus_client", "pyarrow", "rich", "threadpoolctl", "yaml"}


class BaseInstall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, BaseInstall())

from click.testing import CliRunner

from fedboard.cli.main import commands

assert not {"numpy", "scipy"} & set(sys.modules), "fedboard --help must not import them"
run, ratings = sys.argv[1:]
for arguments in (
    ["--help"],
    ["recommend", ratings, run],
    ["explain", "7", ratings, run],
    ["explain", "--neighbours", "7", run],
    ["ratings", "init", "--epsilon", "50"],
    ["ratings", "import", ratings, "--board", run],
    ["ratings", "list"],
    ["recommend", "device.toml", run],
    ["status"],
    ["certificate", "show", run],
    ["certificate", "verify", run],
    ["certificate", "verify", run, "--simulation"],
    ["certificate", "show", "--as", "label", run, "--out", "label.html"],
    ["simulate", "--data", "synthetic"],
):
    result = CliRunner().invoke(commands, arguments)
    print(arguments[0], result.exit_code, result.stderr.strip(), sep="|")

from pathlib import Path

from fedboard.client.participation.rounds import respond
from fedboard.client.participation.opening import open_device
from fedboard.common.board import Board
from fedboard.common.messages.question import Answer
from fedboard.common.messages.question import Question
from fedboard.common.messages.sealing import ReplyKey
from fedboard.common.messages.signing import QuestionKey

device = Path("device.toml")
server = QuestionKey()
server.write(Path())
pinned = '[server]\\naddress = "127.0.0.1:1"\\nauthority = "ca.pem"\\nkey = "device.key"\\n'
pinned += 'question_key = "question-signing.pub"\\n'
device.write_text(device.read_text().replace("# seeded_noise", "seeded_noise") + pinned)
board = Board.load(sorted(Path(run, "boards").iterdir())[1])
key = ReplyKey()
question = Question(
    run="demo", protocol="trusted", form="factored", board=board, private_noise=False, reply_key=key.public
)
with open_device(device) as (source, gate):
    reply = respond(server.sign(question.content, seconds=60), source=source, gate=gate)
answer = Answer.from_bytes(key.open(reply, about=question.about), limit=1 << 20)
print("answered", answer.n_users, answer.board_digest == board.digest, sep="|")
"""


def test_a_device_recommends_verifies_and_answers_without_the_extras(finished: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("item,rating\n1,5\n2,1\n")
    command = [sys.executable, "-c", SCRIPT, finished, mine]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, cwd=tmp_path)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "--help|0|",
        "recommend|0|",
        "explain|0|",
        "explain|0|",
        "ratings|0|",
        "ratings|0|",
        "ratings|0|",
        "recommend|0|",
        "status|0|",
        "certificate|0|",
        "certificate|5|",
        "certificate|0|",
        "certificate|3|fedboard: no label is written of a simulation: its noise can be reproduced from a seed, so "
        'nobody was protected; run it with secure noise (privacy.noise = "secure")',
        "simulate|2|fedboard: this needs more: run pip install '.[all]' in fedboard's checkout",
        "answered|1|True",
    ]
    assert not (tmp_path / "runs").exists()


def test_what_needs_an_extra_says_so_before_anything_is_written(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "absent = 'dp_accounting flwr httpx jinja2 llvmlite numba pyarrow rich threadpoolctl'\n"
        "sys.modules.update(dict.fromkeys(absent.split()))\n"
        "from fedboard.cli.main import commands\n"
        "commands(sys.argv[1:])"
    )
    small = ("--set", "run.kernels=numpy", "--set", "data.synthetic.n_users=300")
    ended = {
        arguments: subprocess.run(
            [sys.executable, "-c", script, *arguments, "--out", "made"],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            cwd=tmp_path,
        )
        for arguments in (("demo", "--small"), ("simulate", *small), ("simulate", *small, "--no-report"))
    }

    for arguments, one in ended.items():
        assert one.returncode == 2, (arguments, one.stderr)
        assert "fedboard: this needs" in one.stderr, arguments
        assert not (tmp_path / "made").exists(), arguments


def test_a_reader_imports_neither_scipy_nor_what_a_server_needs() -> None:
    """They would double its memory and its start."""
    script = (
        "import sys, fedboard.client.participation.config, fedboard.client.participation.own_view\n"
        "import fedboard.client.recommending.recommend\n"
        "heavy = {'scipy', 'grpc', 'cryptography', 'flwr'}\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & heavy))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=180, check=True
    )

    assert ended.stdout == "[]\n"
