"""A fleet of real processes: it trains whatever is killed, and nobody comes in by the devices' door."""

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import ssl
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from fnmatch import fnmatch
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from flwr.proto.control_pb2 import ListRunsRequest, StartRunRequest
from flwr.proto.fleet_pb2 import ActivateNodeRequest, RegisterNodeFleetRequest
from flwr.proto.runtime_pb2 import AcquireTaskRequest, AcquireTaskResponse
from tests.server.fleet.opened import with_enrolment

from fedboard.cli.main import commands
from fedboard.client.device.config import load_device
from fedboard.client.device.status import given_so_far
from fedboard.client.fleet.connection import Connection
from fedboard.common.certificate import Certificate
from fedboard.common.keys.node_keys import load_private_key, make_node_key, public_key_pem
from fedboard.common.reports.wording import spent
from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.plan.preparing import prepare
from fedboard.server.fleet.processes.children import _descendants
from fedboard.server.fleet.processes.control import Control
from fedboard.server.fleet.rounds.round_log import RoundLog
from tests.common.wire.pages.asking import listening, pages
from tests.ports import free_ports
from tests.server.fleet.deployed import NODES, ROUNDS, Fleet, deployed

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")]


NOT_IN_A_BACKUP = (
    "superlink.db*",
    "flower/*",
    "logs/*",
    "runs/*/counts/*",
    "line",
    "door.json*",
    "*.lock",
    "*.sqlite-*",
)
"""What a server makes again, or is told by others."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    (port,) = free_ports(1)
    more = {"server": ("--live", f"127.0.0.1:{port}")}
    with deployed(
        tmp_path_factory.mktemp("fleet"), before=half_made_database, more=more, vouched=True
    ) as running:
        yield running


def half_made_database(fleet: Fleet) -> None:
    """As it is left by a SuperLink that was killed while it made its database; devices may join."""
    with_enrolment(fleet, "max_devices = 1\nmax_users_per_device = 40\nmax_users = 40")
    prepare(fleet.settings)
    with closing(sqlite3.connect(fleet.state.database)) as half_made:
        half_made.execute("CREATE TABLE task (task_id BIGINT NOT NULL)")


def anybody(fleet: Fleet) -> httpx.Client:
    """Who has the authority's certificate and nothing else."""
    trusted = ssl.create_default_context(cafile=str(fleet.settings.network.authority))
    headers = {"content-type": "application/protobuf", "accept": "application/protobuf"}
    return httpx.Client(verify=trusted, trust_env=False, headers=headers)


def post(fleet: Fleet, port: int, path: str, content: bytes, *, key: str | None = None) -> httpx.Response:
    """What anybody can send, perhaps with the public key of a node."""
    headers = {} if key is None else {"flwr-public-key": base64.b64encode(key.encode()).decode()}
    with anybody(fleet) as client:
        return client.post(f"https://127.0.0.1:{port}{path}", content=content, headers=headers)


def test_the_training_is_completed_though_each_part_is_killed(fleet: Fleet) -> None:
    fleet.wait(lambda: len(fleet.rounds) >= 1, "first round")
    assert "superlink started again (start 2" in fleet.log("server")  # with a new database
    fleet.end("c", signal.SIGKILL)
    fleet.kill_superlink()
    fleet.start("c")
    finished = len(fleet.rounds)
    fleet.wait(lambda: len(fleet.rounds) > finished, "round after the SuperLink was killed")
    fleet.end("server", signal.SIGKILL)
    fleet.start("server")
    fleet.wait(lambda: "the training is complete" in fleet.log("server"), "complete training")

    boards = fleet.boards()
    assert [board.version for board in boards] == list(range(ROUNDS + 2))
    assert all(later.previous_digest == board.digest for board, later in pairwise(boards))
    certificate = Certificate.from_dict(dict(boards[-1].certificate or {}))
    assert certificate.holds
    assert certificate.claim.epsilon <= 5.0 * (1 + 1e-9)
    lines = RoundLog(fleet.state.run / "rounds.jsonl").lines()
    released = [name for line in lines for name in line["releases"]]
    assert len(released) == len(set(released))
    assert sum(len(line["releases"]) > 0 for line in lines) >= 2
    assert {line["protocol"] for line in lines} == {"secure-sum"}
    assert all(3 <= line["answers"] <= 4 for line in lines if line["releases"])
    assert {len(line["steps"]) for line in lines if line["releases"]} == {5}  # confirmed before it was opened
    assert "whatever the server says or does" in " ".join(certificate.trust)
    assert "superlink started again (start 3" in fleet.log("server")


def test_each_file_of_the_state_folder_is_in_a_backup_or_on_a_list(fleet: Fleet, tmp_path: Path) -> None:
    """A file that a server makes and nobody thought of is found here, by its name."""
    fleet.wait(lambda: "complete" in fleet.log("server"), "complete training")
    words = ("fleet", "backup", "--config", fleet.folder / "fleet.toml", "--to", tmp_path / "one.fedboard")
    made = CliRunner().invoke(commands, [str(word) for word in words])
    assert made.exit_code == 0, made.stderr
    with tarfile.open(tmp_path / "one.fedboard") as tar:
        held = {name.removeprefix("state/") for name in tar.getnames()}

    missing = {
        name
        for path in fleet.state.path.rglob("*")
        if path.is_file() and (name := path.relative_to(fleet.state.path).as_posix()) not in held
    }
    unlisted = [name for name in missing if not any(fnmatch(name, one) for one in NOT_IN_A_BACKUP)]
    unneeded = [one for one in NOT_IN_A_BACKUP if not any(fnmatch(name, one) for name in missing)]
    assert (unlisted, unneeded) == ([], [])


def test_with_the_authoritys_certificate_alone_nobody_comes_in_by_the_devices_port(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.wait(lambda: "complete" in fleet.log("server"), "complete training")
    door = fleet.settings.network.port
    for path, request in (
        ("/v1/control/start-run", StartRunRequest()),
        ("/v1/control/list-runs", ListRunsRequest()),
        ("/v1/runtime/acquire-task", AcquireTaskRequest(supported_task_types=["flwr-serverapp"])),
        ("/v1/fleet/register-node", RegisterNodeFleetRequest(public_key=b"mine")),
    ):
        answer = post(fleet, door, path, request.SerializeToString())
        assert (answer.status_code, answer.text) == (404, "not found")

    stranger = public_key_pem(make_node_key(tmp_path / "node.key", name="x").read_text(), source="")
    activate = ActivateNodeRequest(public_key=stranger.encode(), heartbeat_interval=10.0)
    answer = post(fleet, door, "/v1/fleet/activate-node", activate.SerializeToString(), key=stranger)
    assert (answer.status_code, answer.text) == (401, "not admitted")

    known = next(iter(fleet.settings.public_keys))  # no secret: the private half is what counts
    activate = ActivateNodeRequest(public_key=known.encode(), heartbeat_interval=10.0)
    answer = post(fleet, door, "/v1/fleet/activate-node", activate.SerializeToString(), key=known)
    assert (answer.status_code, answer.text) == (401, "not admitted")


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # in Flower's packing of an app
def test_on_the_superlinks_own_port_it_would_be_enough(fleet: Fleet) -> None:
    """The negative control: without the proxy, the same certificate starts runs and takes tasks."""
    fleet.wait(lambda: "complete" in fleet.log("server"), "complete training")
    behind = fleet.settings.network.superlink_port
    acquire = AcquireTaskRequest(supported_task_types=["flwr-serverapp"]).SerializeToString()
    place = f"https://127.0.0.1:{behind}/v1/runtime/acquire-task"

    with Control(port=behind, authority=fleet.settings.network.authority) as control, anybody(fleet) as eve:
        for _ in range(20):  # the SuperLink's own worker looks for tasks too, and is sometimes first
            run = control.start_run(fleet.folder / "no-such-job.json")
            taken = AcquireTaskResponse.FromString(eve.post(place, content=acquire).content)
            if taken.token:
                break
        assert run in {state.run_id for state in control.runs()}

    assert taken.task.run_id == run
    assert taken.token  # with which she is the ServerApp of this run


def test_the_boards_are_served_and_the_metrics_tell_of_the_parts(fleet: Fleet, tmp_path: Path) -> None:
    fleet.wait(lambda: "complete" in fleet.log("server"), "complete training")
    last = fleet.boards()[-1]
    words = ["board", "fetch", f"grpcs://127.0.0.1:{fleet.settings.board.port}", "--to", str(tmp_path)]
    words += ["--key", str(fleet.folder / "board-signing.pub"), "--simulation"]  # its noise is seeded
    words += ["--authority", str(fleet.settings.network.authority)]

    def fetched() -> bool:
        CliRunner().invoke(commands, words)
        return any(last.digest in path.name for path in tmp_path.glob("*.board"))

    fleet.wait(fetched, "served board", 20)
    metrics = httpx.get(f"http://127.0.0.1:{fleet.settings.board.metrics_port}/metrics", trust_env=False).text
    assert 'fedboard_device_calls_total{status="200"}' in metrics


def live_page(fleet: Fleet, name: str) -> str:
    """The address that a process told last."""
    return re.findall(r"live page: (\S+)", fleet.log(name))[-1]


def test_the_live_page_of_the_server_tells_of_the_training_after_its_restart(fleet: Fleet) -> None:
    fleet.wait(lambda: "complete" in fleet.log("server"), "complete training")
    with listening(live_page(fleet, "server")) as events:
        page = next(news for news in pages(events) if 'data-step="signature" data-state="passed"' in news)

    lines = RoundLog(fleet.state.run / "rounds.jsonl").lines()
    assert fleet.log("server").count("live page: ") == 2, "killed and started again, on the same port"
    assert "<h1>trial</h1>" in page
    assert '<html lang="en" data-state="finished">' in page
    facts = dict(re.findall("<dt>([^<]*)</dt><dd>([^<]*)</dd>", page))
    assert facts["Answers taken"] == str(sum(line["answers"] for line in lines))
    assert facts["Online"].endswith(f"of {len(NODES)}")
    made, planned = re.findall(r"(\d+) of (\d+) made", page)[0]
    lost = sum(line["lost"] for line in lines)
    assert (int(made) + lost, int(planned)) == (ROUNDS + 1, ROUNDS + 1)
    assert spent(lines[-1]["epsilon_spent"]) in page
    checks = dict(re.findall(r'data-step="(\w+)" data-state="(\w+)"', page))
    assert checks == dict.fromkeys(("bytes", "chain", "ledger", "promise", "signature"), "passed") | {
        "noise": "failed"
    }, "its noise is seeded"
    assert "this page contains such numbers" not in page


def test_a_question_is_answered_by_the_devices_over_tls_and_counts_beside_the_training(fleet: Fleet) -> None:
    fleet.wait(lambda: "complete" in fleet.log("server"), "complete training")
    words = ["--fleet", str(fleet.folder / "fleet.toml"), "--json"]

    put = CliRunner().invoke(commands, ["ask", "mean", "--epsilon", "0.5", "--no-wait", *words])
    fleet.wait(lambda: "question-1 is answered" in fleet.log("server"), "answer")
    told = CliRunner().invoke(commands, ["ask", "answers", "question-1", *words])

    assert json.loads(put.stdout) == {"name": "question-1", "standing": "waiting"}
    assert told.exit_code == 0, told.stderr
    answer = json.loads(told.stdout)
    low, high = answer["interval"]
    length = high - low  # of 95 %: three times as long it misses in one run of many millions
    assert low - length < 3.0 < high + length, "of whole ratings from 1 to 5, each as likely"
    assert length > 0.05, "there is noise"  # how long it gets is up to chance, and to who answered in time
    certificate = Certificate.from_dict(answer["certificate"])
    assert certificate.holds
    assert certificate.claim.epsilon == pytest.approx(0.5)
    assert answer["spent"] > 5.0 * (1 - 1e-9)
    given, _ = given_so_far(load_device(fleet.folder / "a" / "device.toml"))
    assert [entry.release for entry in given].count("question-1") == 1
    assert "question-1: mean of ratings" in fleet.log("server")


def test_a_device_joins_a_server_that_runs_and_is_out_as_soon_as_it_is_removed(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.wait(lambda: "complete" in fleet.log("server"), "complete training")
    config, home = str(fleet.folder / "fleet.toml"), tmp_path / "ann"

    def fedboard(*words: str) -> str:
        done = CliRunner().invoke(commands, [*words])
        assert done.exit_code == 0, done.stderr
        return done.stdout

    fedboard("fleet", "invite", "ann", "--config", config, "--out", str(tmp_path / "invitation"))
    fedboard("client", "join", "--invitation", str(tmp_path / "invitation"), "--out", str(home))
    server = load_device(home / "device.toml").server
    assert server is not None
    node = Connection(
        address=server.address,
        root_certificate=server.ca_certificate.read_text(),
        private_key=load_private_key(server.node_key),
        largest=1000,
    )

    def works() -> bool:
        with contextlib.suppress(httpx.HTTPStatusError):  # until the SuperLink knows it too
            node.activate()
        return node.node_id != 0

    fleet.wait(works, "work for the new device", 30)
    assert "ann is a member now" in fleet.log("server")

    def stands() -> dict[str, Any]:
        return json.loads(fedboard("fleet", "status", "--config", config, "--json"))  # type: ignore[no-any-return]

    fleet.wait(lambda: stands()["devices"]["online"] == 5, "five devices online", 30)
    assert stands()["devices"]["versions"] == {version("fedboard"): 5}
    assert stands()["devices"]["invited"] == 1
    metrics = httpx.get(f"http://127.0.0.1:{fleet.settings.board.metrics_port}/metrics", trust_env=False).text
    assert "fedboard_devices_admitted 5.0" in metrics

    fedboard("fleet", "remove", "ann", "--config", config)
    with pytest.raises(httpx.HTTPStatusError) as refused:
        node.beat()
    assert refused.value.response.status_code == 401
    node.leave()
    fleet.wait(lambda: "ann is no member any more" in fleet.log("server"), "word of the removal", 30)


def test_nodes_are_read_again_without_a_restart(fleet: Fleet) -> None:
    fleet.wait(lambda: "complete" in fleet.log("server"), "complete training")
    config = fleet.folder / "fleet.toml"
    text = config.read_text()
    try:
        config.write_text(text.replace("quorum = 3", "quorum = 2").replace('name = "d"', 'name = "delta"'))
        fleet.send("server", signal.SIGHUP)
        fleet.wait(lambda: "reloaded: 4 nodes" in fleet.log("server"), "reload", 20)
        assert "for the next start: rounds.quorum" in fleet.log("server")
        with Register(fleet.state.members) as register:
            assert [member.name for member in register.admitted()] == ["a", "b", "c", "delta"]
        without = re.sub(r', \{ name = "d"[^}]*\}', "", text)
        config.write_text(without)
        fleet.send("server", signal.SIGHUP)
        gone = re.compile(r"\bd(elta)? is no member any more")
        fleet.wait(lambda: gone.search(fleet.log("server")) is not None, "removal", 20)
        config.write_text(text)
        fleet.send("server", signal.SIGHUP)
        fleet.wait(
            lambda: "d was struck off before; with the same key" in fleet.log("server"), "word of it", 20
        )
        config.write_text(text.replace("max_users = 40", "max_users = 400", 1))
        fleet.send("server", signal.SIGHUP)
        fleet.wait(lambda: "not reloaded: [[nodes]] host 520 users now" in fleet.log("server"), "refusal", 20)
    finally:
        config.write_text(text)


_NOBODY = 65534
_LISTENS = "0A"
_START = """
import os, sys
from flwr.cli.build import build_fab_from_files
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import StartRunRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab

project = '''[project]
name = "mine"
version = "1.0.0"
license = "Apache-2.0"
[tool.flwr.app]
publisher = "me"
[tool.flwr.app.components]
serverapp = "mine:app"
clientapp = "mine:app"
'''
files = {{"pyproject.toml": project.encode(), "mine.py": b"print('as the server')"}}
request = StartRunRequest(fab=fab_to_proto(Fab("", build_fab_from_files(files)[0], {{}})))

def start(port):
    for scheme in ("https", "http"):
        client = ControlHttpClient(scheme + "://127.0.0.1:" + port, verify=False, timeout=10.0)
        try:
            print("run", client.StartRun(request).run_id, "at", port)
        except Exception as error:
            print("no run:", type(error).__name__, port)

start("1")  # whatever is still to be imported
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({nobody})
    os.setuid({nobody})
for port in sys.argv[1:]:
    start(port)
"""
"""Asks each of these ports to start code, with nothing but what is installed; as nobody, where that is allowed."""


class StartedError(AssertionError):
    """Somebody has started code on the server."""


def ports_of(pid: int) -> set[int]:
    """On which this process and all below it listen."""
    mine = set[str]()
    for each in (pid, *_descendants(pid)):
        with contextlib.suppress(OSError):  # closed meanwhile, or ended
            mine |= {os.readlink(handle) for handle in Path(f"/proc/{each}/fd").iterdir()}
    tables = (Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6"))
    rows = [line.split() for table in tables for line in table]
    return {
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if row[3] == _LISTENS and f"socket:[{row[9]}]" in mine
    }


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
@pytest.mark.xfail(raises=StartedError, strict=True, reason="SuperLink's port asks for no credential")
def test_nobody_without_a_credential_starts_code_on_the_server(fleet: Fleet) -> None:
    """From another account where this one may become another, else from this one."""
    fleet.wait(lambda: "complete" in fleet.log("server"), "complete training")
    ports = sorted(ports_of(fleet._processes["server"].pid))
    assert fleet.settings.network.superlink_port in ports
    found = subprocess.run(
        [sys.executable, "-c", _START.format(nobody=_NOBODY), *map(str, ports)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("no run:") >= 2, "the attack itself works"
    if "\nrun " in found.stdout:
        raise StartedError(found.stdout)


def test_the_server_ends_with_all_its_parts(fleet: Fleet) -> None:
    fleet.wait(lambda: "complete" in fleet.log("server"), "complete training")

    assert fleet.end_all(NODES, signal.SIGTERM) == [0] * len(NODES)
    assert all(" 0 failed" in fleet.log(name) for name in NODES)
    assert fleet.end("server", signal.SIGTERM) == 0

    kept = list(fleet.state.path.glob("superlink.db*"))
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    assert not any(path.stat().st_size for path in kept if path.name.endswith("-wal"))
    for port in (fleet.settings.network.port, fleet.settings.network.superlink_port):
        with pytest.raises(httpx.ConnectError):
            post(fleet, port, "/v1/fleet/pull-messages", b"")
