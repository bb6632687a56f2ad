"""``fedboard board``: export, serve, fetch, verify, as a person would."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from tests.common.board_service.boards import chain, keys, write_boards


def fedboard(*arguments):
    return CliRunner().invoke(commands, [str(argument) for argument in arguments])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_boards(tmp_path / "summer" / "boards", chain(3))
    keys(tmp_path / "keys")
    return tmp_path / "summer"


@pytest.fixture
def exported(run, tmp_path) -> Path:
    done = fedboard(
        "board", "export", run, "--to", tmp_path / "mirror", "--key", tmp_path / "keys/board-signing.key"
    )
    assert done.exit_code == 0, done.stderr
    return tmp_path / "mirror"


def fetched(tmp_path, source, *more):
    public = tmp_path / "keys/board-signing.pub"
    return fedboard("board", "fetch", source, "--key", public, "--to", tmp_path / "mine", *more)


def test_a_run_is_exported_once_and_fetched_from_the_folder(tmp_path, run, exported):
    private = tmp_path / "keys/board-signing.key"
    again = fedboard("board", "export", run, "--to", exported, "--key", private)
    assert "has them all already" in again.stdout

    done = fetched(tmp_path, exported, "--json")

    told = json.loads(done.stdout)
    assert (told["run"], told["version"], told["deviation"]) == ("summer", 4, None)
    assert Path(told["path"]).read_bytes() == chain(3)[2].to_bytes()
    assert "here already" in fetched(tmp_path, exported).stdout


def test_what_was_fetched_is_what_recommend_takes(tmp_path, exported):
    fetched(tmp_path, exported, "--encoding", "int8")
    mine = tmp_path / "mine.csv"
    mine.write_text("item,rating\n1,5\n2,1\n")

    done = fedboard("recommend", mine, tmp_path / "mine", "--json")

    assert done.exit_code == 0, done.stderr
    assert len(json.loads(done.stdout)["recommendations"]) == 10


def test_what_is_not_given_is_what_the_device_has(tmp_path, exported):
    assert fedboard("ratings", "init", tmp_path / "ann").exit_code == 0
    device = tmp_path / "ann" / "device.toml"
    without = fedboard("board", "fetch", "--device", device)
    settings = 'source = "../mirror"\npublic_key = "../keys/board-signing.pub"\ncache = "boards"\n'
    device.write_text(device.read_text() + f"\n[board]\n{settings}".replace("../", f"{tmp_path}/"))

    done = fedboard("board", "fetch", "--device", device)

    assert "source and public_key" in without.stderr
    assert done.exit_code == 0, done.stderr
    assert list((tmp_path / "ann" / "boards").glob("board-0004-*.board"))


def test_an_approximation_says_in_words_how_far_off_it_is(tmp_path, exported):
    done = fetched(tmp_path, exported, "--encoding", "int8")

    assert "an approximation: vectors differ by at most" in done.stdout
    assert "of their 20 best items" in done.stdout


def test_another_key_is_refused_with_a_code(tmp_path, exported):
    keys(tmp_path / "theirs")

    done = fedboard(
        "board", "fetch", exported, "--key", tmp_path / "theirs/board-signing.pub", "--to", tmp_path / "mine"
    )

    assert done.exit_code == 1
    assert done.stderr.startswith("fedboard: bad-signature: ")


def test_verify_passes_a_whole_mirror_and_fails_a_damaged_one(tmp_path, exported):
    public = tmp_path / "keys/board-signing.pub"
    assert fedboard("board", "verify", exported, "--key", public).exit_code == 0
    largest = max((exported / "files").iterdir(), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-1] + b"?")

    done = fedboard("board", "verify", exported, "--key", public, "--json")

    assert done.exit_code == 1
    failed = [finding for finding in json.loads(done.stdout)["findings"] if not finding["passed"]]
    assert [finding["detail"].partition(":")[0] for finding in failed] == ["wrong-digest"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("serve", "mirror"), "--no-tls"),
        (("serve", "mirror", "--no-tls", "--boards", "summer"), "go together"),
        (("export", "nowhere", "--to", "m", "--key", "k"), "no boards in this directory"),
        (("fetch", "mirror", "--key", "k", "--to", "m", "--follow", "--version", "3"), "leave --version out"),
    ],
)
def test_what_does_not_go_together_is_told(arguments, told):
    done = fedboard("board", *arguments)

    assert done.exit_code == 2
    assert told in done.stderr


def test_serve_signs_serves_and_tells_its_metrics_until_it_is_ended(tmp_path, run):
    command = [sys.executable, "-c", "from fedboard.cli.main import main; main()", "board", "serve", "mirror"]
    command += [
        "--boards",
        "summer",
        "--key",
        "keys/board-signing.key",
        "--no-tls",
        "--address",
        "127.0.0.1:0",
    ]
    command += ["--metrics", "127.0.0.1:0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment
    ) as service:
        try:
            ports = [int(service.stdout.readline().split("port ")[1].split(";")[0]) for _ in range(2)]
            done = fetched(tmp_path, f"grpc://127.0.0.1:{ports[0]}")
            with urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/metrics", timeout=10) as answer:
                metrics = answer.read().decode()
        finally:
            service.send_signal(signal.SIGTERM)
        code = service.wait(10)

    assert done.exit_code == 0, done.stderr
    assert 'fedboard_board_requests_total{method="Get",outcome="ok"} 1.0' in metrics
    assert code == 130
