"""Joining over TLS: what a device ends up with, whom it tells its secret, and who else gets in."""

import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.client.participation import joining
from fedboard.client.participation.config import load_device
from fedboard.client.participation.joining import NotAdmittedError, join
from fedboard.client.participation.opening import asker_of, open_ledger
from fedboard.common.boards.roots import Role
from fedboard.common.boards.roster import IdentityKey
from fedboard.common.errors import InputError
from fedboard.common.messages.addresses import Address
from fedboard.common.messages.devices import DeviceKey, Method
from fedboard.common.messages.devices_pb2 import JoinReply, JoinRequest
from fedboard.common.messages.enrolment import Introduction, Invitation, ask_to_join, fresh_secret
from fedboard.common.messages.signing import PinnedServer, QuestionKey
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.server.fleet.register import Register
from fedboard.server.operating.drafting import drafted, signed_by
from fedboard.server.tls import make_authority, make_server_certificate
from tests.commands import fedboard
from tests.server.fleet.open_devices import OpenDevices, open_devices, status_of
from tests.server.vouched import vouched_pair


def introduction(folder: Path, **more: Any) -> bytes:
    """Of a fleet whose files are in a folder."""
    if not (folder / "server.pem").exists():
        vouched_pair(folder)
    return Introduction(
        run="trial",
        task="adadpals",
        protocol="secure-sum",
        epsilon=5.0,
        delta=1e-6,
        adjacency=Adjacency.ADD_REMOVE,
        authority=(folder / "authority.pem").read_text(),
        question_key=QuestionKey.read(folder / "question-signing.key").public.hex,
        **more,
    ).to_bytes()


def keys(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    QuestionKey().write(folder)
    return folder


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenDevices]:
    folder = keys(tmp_path_factory.mktemp("fleet"))
    made = introduction(folder, board_key=DeviceKey().public.hex())
    with open_devices(folder, introduction=made) as found:
        yield found


@pytest.fixture
def fleet(opened: OpenDevices) -> Iterator[OpenDevices]:
    """Nobody stays."""
    yield opened
    with Register(opened.members_file) as register:
        for member in register.admitted():
            register.remove(member.name)
        register.withdraw_all()


def invited(fleet: OpenDevices, name: str) -> Invitation:
    return fleet.invite(name, secret=fresh_secret())


def admitted(fleet: OpenDevices) -> dict[str, str]:
    with Register(fleet.members_file) as register:
        return {member.name: member.key for member in register.admitted()}


def test_a_device_joins_by_the_command_line_and_is_ready_to_answer(
    fleet: OpenDevices, tmp_path: Path
) -> None:
    invitation, home = tmp_path / "invitation", tmp_path / "ann"
    invitation.write_text(invited(fleet, "ann").text)

    joined = fedboard("client", "join", "--invitation", invitation, "--out", home, "--epsilon", "3")

    assert joined.exit_code == 0, joined.stderr
    assert joined.stdout.startswith(
        "joined as ann: training trial (adadpals, protocol secure-sum) asks epsilon 5"
    )
    device = load_device(home / "device.toml")
    assert device.server is not None
    assert device.server.address == device.board.source == f"127.0.0.1:{fleet.port}"
    assert (device.policy.epsilon, device.policy.delta) == (3.0, 1e-6)
    asker = QuestionKey.read(fleet.folder / "question-signing.key").public
    assert asker_of(device).id == asker.id == PinnedServer.read(home / "question-signing.pub").id
    assert device.server.authority.read_bytes() == (fleet.folder / "authority.pem").read_bytes()
    assert device.board.public_key == home / "board-signing.pub"
    for private in ("device.key", "identity.key", "device.toml", "ratings.sqlite"):
        assert stat.S_IMODE((home / private).stat().st_mode) == 0o600, private
    assert device.server.identity_key == home / "identity.key"
    open_ledger(device).close()
    assert admitted(fleet) == {"ann": DeviceKey.load(device.server.key).public.hex()}
    with Register(fleet.members_file) as register:
        (member,) = register.admitted()
    assert member.identity == IdentityKey.load(home / "identity.key").public.hex()
    assert member.version

    again = fedboard("client", "join", "--invitation", invitation, "--out", home)
    elsewhere = fedboard("client", "join", "--invitation", invitation, "--out", tmp_path / "eve")
    assert (again.exit_code, elsewhere.exit_code) == (2, 1)
    assert "has a server already" in again.stderr
    assert "another device has joined with this invitation" in elsewhere.stderr
    assert not (tmp_path / "eve" / "device.toml").exists()


def test_who_joined_is_asked_at_the_next_call(fleet: OpenDevices, tmp_path: Path) -> None:
    home = tmp_path / "ann"
    fleet.keys["ann"] = DeviceKey()
    home.mkdir()
    fleet.keys["ann"].write(home)
    assert fleet.work(fleet.signed("ann")) == "UNAUTHENTICATED"

    join(invited(fleet, "ann"), home, epsilon=3.0)

    fleet.ask("ann")
    received = fleet.device("ann").receive()
    assert received is not None
    assert received.frame == b"what?"
    fleet.mailbox.end()


def test_a_device_of_a_fleet_with_roots_pins_the_root_and_follows_it(tmp_path: Path) -> None:
    folder = keys(tmp_path / "fleet")
    board, holder = DeviceKey(), Ed25519PrivateKey.generate()
    asking = bytes.fromhex(QuestionKey.read(folder / "question-signing.key").public.hex)
    of = {"root": holder.public_key().public_bytes_raw(), "boards": board.public, "questions": asking}
    draft = drafted({name: Role((key,), 1) for name, key in of.items()}, version=1, days=30)
    root = signed_by(draft, [holder], before=None).decode()
    served = introduction(folder, board_key=board.public.hex(), root=root)
    with open_devices(folder, introduction=served) as fleet:
        member = join(invited(fleet, "ann"), tmp_path / "ann", epsilon=3.0)

    device = load_device(member.device)
    assert device.server is not None
    assert device.server.question_key == device.board.public_key == tmp_path / "ann" / "root.json"
    assert (tmp_path / "ann" / "root.json").read_text() == root
    assert asker_of(device) is not None


def test_where_the_answer_got_lost_the_same_device_asks_again(
    fleet: OpenDevices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invitation = invited(fleet, "ann")

    def lost(*asked: object) -> JoinReply:
        asking(*asked)  # type: ignore[arg-type]
        raise InputError("the cable was pulled")

    asking = joining.ask_to_join
    monkeypatch.setattr(joining, "ask_to_join", lost)
    with pytest.raises(InputError, match="cable"):
        join(invitation, tmp_path / "ann", epsilon=3.0)
    monkeypatch.undo()
    key = admitted(fleet)["ann"]

    member = join(invitation, tmp_path / "ann", epsilon=3.0)

    assert admitted(fleet) == {"ann": key}
    assert load_device(member.device).server is not None


def test_a_device_that_is_there_keeps_its_ratings_and_its_policy(fleet: OpenDevices, tmp_path: Path) -> None:
    home = tmp_path / "ann"
    assert fedboard("ratings", "init", home, "--epsilon", "2", "--delta", "1e-7").exit_code == 0
    assert fedboard("ratings", "add", "i1", "4", "--device", home / "device.toml").exit_code == 0
    with pytest.raises(InputError, match="has a policy already"):
        join(invited(fleet, "eve"), home, epsilon=9.0)

    join(invited(fleet, "ann"), home)

    device = load_device(home / "device.toml")
    assert (device.policy.epsilon, device.policy.delta) == (2.0, 1e-7)
    assert device.server is not None
    assert "i1" in fedboard("ratings", "list", "--device", home / "device.toml").stdout


def test_a_limit_that_protects_little_is_not_proposed(
    fleet: OpenDevices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "MOST_UNASKED", 4.9)

    with pytest.raises(InputError, match="asks epsilon 5 of everybody, which protects little"):
        join(invited(fleet, "ann"), tmp_path / "ann")

    assert admitted(fleet) == {}
    assert not (tmp_path / "ann").exists()


def test_a_server_with_other_keys_is_told_nothing(
    fleet: OpenDevices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody in between has a certificate or a fleet of their own: they see neither secret nor key."""
    told: list[object] = []
    monkeypatch.setattr(joining, "ask_to_join", lambda *asked: told.append(asked))
    invitation = replace(invited(fleet, "ann"), introduction=bytes(32))

    with pytest.raises(InputError, match="does not have the keys that this invitation names"):
        join(invitation, tmp_path / "ann", epsilon=3.0)

    assert told == []
    assert not (tmp_path / "ann").exists()


@pytest.mark.parametrize("names", [("127.0.0.1",), ("elsewhere.example",)])
def test_the_right_introduction_without_the_authoritys_key_is_not_enough(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    """The introduction is public: whoever was handed it hands it on. The certificate is what they lack."""
    honest, hostile = keys(tmp_path / "honest"), keys(tmp_path / "hostile")
    make_authority(hostile / "authority.pem", hostile / "authority.key", name="trial")
    of_hostile = {"authority": hostile / "authority.pem", "authority_key": hostile / "authority.key"}
    make_server_certificate(hostile / "server.pem", hostile / "server.key", names=names, **of_hostile)
    with open_devices(hostile, introduction=introduction(honest)) as fleet:
        with pytest.raises(InputError, match=r"does not vouch for this server.*nothing was told"):
            join(invited(fleet, "ann"), tmp_path / "ann", epsilon=3.0)

        with Register(fleet.members_file) as register:
            assert [one.name for one in register.invitations()] == ["ann"]


def refused(fleet: OpenDevices, content: bytes) -> str:
    """The code of a refusal, or the status of the call."""
    found: list[JoinReply] = []
    call = fleet.channel().unary_unary(Method.JOIN.path, response_deserializer=JoinReply.FromString)
    status = status_of(lambda: found.append(call(content, timeout=20.0)))
    return found[0].refused if found else status


def changed(request: JoinRequest, **fields: object) -> bytes:
    copy = JoinRequest.FromString(request.SerializeToString())
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy.SerializeToString()


def test_a_stranger_gets_in_by_nothing_else(fleet: OpenDevices) -> None:
    invitation = invited(fleet, "ann")
    key, identity, other, eve = DeviceKey(), IdentityKey(), DeviceKey(), IdentityKey()
    named: dict[str, Any] = {
        "secret": invitation.secret,
        "introduction": invitation.introduction,
        "version": "1",
    }
    honest = ask_to_join(key, identity, **named)
    by_another = ask_to_join(other, identity, **named)
    with_eve = ask_to_join(key, eve, **named)
    guessed = ask_to_join(key, identity, **{**named, "secret": bytes(32)})
    elsewhere = ask_to_join(key, identity, **{**named, "introduction": bytes(32)})
    sent = {
        "another's key": ("unproven-key", changed(honest, key=other.public)),
        "another's signature": ("unproven-key", changed(honest, signature=by_another.signature)),
        "for another fleet": ("unproven-key", elsewhere.SerializeToString()),
        "another's identity": ("unproven-key", changed(honest, identity=eve.public)),
        "an identity that the key did not sign": (
            "unproven-key",
            changed(honest, identity=eve.public, identity_signature=with_eve.identity_signature),
        ),
        "a signature of the other key": (
            "unproven-key",
            changed(honest, identity_signature=honest.signature),
        ),
        "no key": ("unproven-key", changed(honest, key=bytes(32), signature=bytes(64))),
        "a guess": ("unknown-invitation", guessed.SerializeToString()),
        "nothing": ("malformed", b""),
        "cut short": ("malformed", honest.SerializeToString()[:-1]),
        "a short secret": ("malformed", changed(honest, secret=b"s")),
        "a long key": ("malformed", changed(honest, key=b"k" * 33)),
        "no text": ("malformed", honest.SerializeToString() + b"\x32\x01\xff"),
        "more than is read": ("RESOURCE_EXHAUSTED", b"x" * (1 << 20)),
    }

    for what, (code, content) in sent.items():
        assert refused(fleet, content) == code, what
    assert admitted(fleet) == {}
    assert refused(fleet, honest.SerializeToString()) == ""
    assert admitted(fleet) == {"ann": key.public.hex()}
    assert fleet.enrolment.counts["unproven-key"] >= 7


def test_a_version_that_is_none_is_not_kept(fleet: OpenDevices) -> None:
    invitation = invited(fleet, "ann")
    named: dict[str, Any] = {"secret": invitation.secret, "introduction": invitation.introduction}
    request = ask_to_join(DeviceKey(), IdentityKey(), version="\x1b[31m", **named)

    assert refused(fleet, request.SerializeToString()) == ""

    with Register(fleet.members_file) as register:
        assert [member.version for member in register.admitted()] == [""]


def test_a_removed_device_is_told_that_its_key_is_gone(fleet: OpenDevices, tmp_path: Path) -> None:
    invitation = invited(fleet, "ann")
    join(invitation, tmp_path / "ann", epsilon=3.0)
    fleet.remove("ann")
    (tmp_path / "ann" / "device.toml").unlink()

    with pytest.raises(
        NotAdmittedError, match=r"removed by the fleet; move device\.key and identity\.key away"
    ):
        join(invitation, tmp_path / "ann", epsilon=3.0)


@pytest.mark.parametrize("limit", ["strangers", "of_one"])
def test_strangers_are_heard_so_often_and_no_more(tmp_path: Path, limit: str) -> None:
    folder = keys(tmp_path / "fleet")
    with open_devices(folder, introduction=introduction(folder), members=["ann"], **{limit: 3}) as fleet:
        assert refused(fleet, b"x") == "malformed"
        join(invited(fleet, "bob"), tmp_path / "bob", epsilon=3.0)

        assert refused(fleet, b"x") == "RESOURCE_EXHAUSTED"
        with pytest.raises(InputError, match="more requests than it looks at; try again in a minute"):
            join(invited(fleet, "cid"), tmp_path / "cid", epsilon=3.0)
        assert fleet.enrolment.counts == {"malformed": 1, "joined": 1, "too-often": 2}
        assert fleet.device("ann").receive() is None, "members are heard all the same"


def test_a_stranger_who_sends_nothing_or_never_ends_is_not_waited_for(fleet: OpenDevices) -> None:
    go_on = threading.Event()

    def never() -> Iterator[bytes]:
        go_on.wait(20.0)
        yield b""

    call = fleet.channel().stream_unary(Method.JOIN.path)
    assert status_of(lambda: call(never(), timeout=0.5)) == "DEADLINE_EXCEEDED"
    assert status_of(lambda: call(never(), timeout=None)) == "INVALID_ARGUMENT"
    assert status_of(lambda: call(iter([]), timeout=5.0)) == "INVALID_ARGUMENT"
    go_on.set()


def test_a_register_that_fails_admits_nobody(fleet: OpenDevices, monkeypatch: pytest.MonkeyPatch) -> None:
    invitation = invited(fleet, "ann")
    monkeypatch.setattr(fleet.enrolment, "register", Path("/nowhere/members"))
    named: dict[str, Any] = {"secret": invitation.secret, "introduction": invitation.introduction}
    request = ask_to_join(DeviceKey(), IdentityKey(), version="1", **named)

    assert refused(fleet, request.SerializeToString()) == "UNAVAILABLE"


def test_an_address_where_nobody_answers_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
    invitation = Invitation(address=Address("127.0.0.1", port), introduction=bytes(32), secret=fresh_secret())

    with pytest.raises(InputError, match=rf"127\.0\.0\.1:{port}: no answer \(ConnectionRefusedError\)"):
        join(invitation, tmp_path / "ann", epsilon=3.0)


def test_a_server_of_another_kind_is_said(tmp_path: Path) -> None:
    folder = vouched_pair(tmp_path)
    server = grpc.server(ThreadPoolExecutor())
    pair = [((folder / "server.key").read_bytes(), (folder / "server.pem").read_bytes())]
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(pair))
    server.start()
    invitation = Invitation(address=Address("127.0.0.1", port), introduction=bytes(32), secret=fresh_secret())

    with pytest.raises(InputError, match=r"no answer \(UNIMPLEMENTED\)"):
        join(invitation, tmp_path / "ann", epsilon=3.0)
    server.stop(None).wait()
