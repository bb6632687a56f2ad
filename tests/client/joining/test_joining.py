"""Joining over TLS, at a real door: what a device ends up with, whom it tells its secret, and who else gets in."""

import http.client
import json
import ssl
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from fedboard.cli.main import commands
from fedboard.client.device.config import load_device
from fedboard.client.joining import joining
from fedboard.client.joining.introducing import NotAdmittedError
from fedboard.client.joining.joining import join
from fedboard.common.errors import InputError
from fedboard.common.keys.node_keys import load_private_key, make_node_key
from fedboard.common.keys.roster import IdentityKey
from fedboard.common.wire.enrolment import JOIN_PATH, Invitation, JoinAnswer, JoinRequest
from fedboard.common.wire.signing import PinnedServer, QuestionKey
from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.plan.settings import FleetSettings, read_settings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.tls import make_authority, make_server_certificate
from tests.server.fleet.opened import MORE, a_fleet, an_invitation, door_of


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetSettings]:
    settings = a_fleet(tmp_path_factory.mktemp("fleet"), f"{MORE}\njoins_per_address = 1000")
    with door_of(settings):
        yield settings


@pytest.fixture(autouse=True)
def nobody_stays(fleet: FleetSettings) -> Iterator[None]:
    """There is room for three devices."""
    yield
    with Register(StateFolder.of(fleet).members) as register:
        for member in register.admitted():
            if member.invited:
                register.remove(member.name)
        register.withdraw_all()


def fedboard(*words: object) -> Result:
    return CliRunner().invoke(commands, [str(word) for word in words])


def admitted(fleet: FleetSettings) -> dict[str, str]:
    with Register(StateFolder.of(fleet).members) as register:
        return {member.name: member.key for member in register.admitted() if member.invited}


def test_a_device_joins_by_the_command_line_and_is_ready_to_answer(
    fleet: FleetSettings, tmp_path: Path
) -> None:
    config, invitation, home = fleet.network.authority.parent / "fleet.toml", tmp_path / "i", tmp_path / "ann"
    made = fedboard("fleet", "invite", "ann", "--config", config, "--out", invitation)
    assert made.exit_code == 0, made.stderr
    assert stat.S_IMODE(invitation.stat().st_mode) == 0o600

    joined = fedboard("client", "join", "--invitation", invitation, "--out", home, "--epsilon", "3")

    assert joined.exit_code == 0, joined.stderr
    assert joined.stdout.startswith(
        "joined as ann: training trial (adadpals, protocol secure-sum) asks epsilon 5"
    )
    device = load_device(home / "device.toml")
    assert device.server is not None
    assert device.server.address == f"127.0.0.1:{fleet.network.port}"
    assert (device.policy.epsilon, device.policy.delta) == (3.0, fleet.privacy.delta)
    asker = QuestionKey.read(fleet.network.question_key).public
    assert device.asker().id == asker.id == PinnedServer.read(home / "question-signing.pub").id
    assert (home / "authority.pem").read_bytes() == fleet.network.authority.read_bytes()
    assert device.board.source == f"127.0.0.1:{fleet.board.port}"
    assert device.board.public_key is not None
    load_private_key(device.server.node_key)
    for private in ("node.key", "identity.key", "device.toml", "ratings.sqlite"):
        assert stat.S_IMODE((home / private).stat().st_mode) == 0o600, private
    assert device.server.identity_key == home / "identity.key"
    device.open_ledger().close()
    assert list(admitted(fleet)) == ["ann"]
    listed = json.loads(fedboard("fleet", "members", "--config", config, "--json").stdout)
    assert [one["name"] for one in listed["members"] if one["admitted"]] == ["a", "b", "c", "d", "ann"]
    assert listed["members"][-1]["identity"] == IdentityKey.load(home / "identity.key").public.hex()

    fedboard("fleet", "members", "--config", config, "--identities", tmp_path / "identities")
    assert (tmp_path / "identities" / "ann.pub").read_bytes() == (home / "identity.pub").read_bytes()
    assert len(list((tmp_path / "identities").iterdir())) == 1

    again = fedboard("client", "join", "--invitation", invitation, "--out", home)
    elsewhere = fedboard("client", "join", "--invitation", invitation, "--out", tmp_path / "eve")
    assert (again.exit_code, elsewhere.exit_code) == (2, 1)
    assert "has a server already" in again.stderr
    assert "another device has joined with this invitation" in elsewhere.stderr
    assert not (tmp_path / "eve" / "device.toml").exists()
    assert (
        "the invitation of ann was presented again" in fedboard("fleet", "members", "--config", config).stdout
    )


def test_an_invitation_is_a_document_too(fleet: FleetSettings, tmp_path: Path) -> None:
    config = fleet.network.authority.parent / "fleet.toml"

    told = json.loads(
        fedboard("fleet", "invite", "bob", "--config", config, "--users", 2, "--hours", 0.5, "--json").stdout
    )

    member = join(Invitation.parse(told["url"], told["token"]), tmp_path / "bob", epsilon=3.0)
    assert (told["name"], told["users"], member.name) == ("bob", 2, "bob")
    assert 1700 < told["expires"] - time.time() <= 1800


def test_a_device_of_a_fleet_with_roots_pins_the_root_and_follows_it(tmp_path: Path) -> None:
    rooted = a_fleet(tmp_path / "fleet")
    config = rooted.network.authority.parent / "fleet.toml"
    keys = config.parent
    assert fedboard("keys", "holder", "one", "--out", keys).exit_code == 0
    holder, board = keys / "one.pub", keys / "board-signing.pub"
    words = ("--holder", holder, "--board-key", board, "--question-key", keys / "question-signing.pub")
    made = fedboard("keys", "root", keys / "roots", *words, "--sign", keys / "one.key")
    assert made.exit_code == 0, made.stderr
    config.write_text(config.read_text().replace("[board]\n", '[board]\nroots = "roots"\n'))
    rooted = read_settings(config)
    with door_of(rooted):
        member = join(an_invitation(rooted, "ann"), tmp_path / "ann", epsilon=3.0)

    device = load_device(member.device)
    assert device.server is not None
    assert device.server.question_key == device.board.public_key == tmp_path / "ann" / "root.json"
    assert (tmp_path / "ann" / "root.json").read_bytes() == (keys / "roots" / "1.root.json").read_bytes()
    assert device.asker() is not None


def test_where_the_answer_got_lost_the_same_device_asks_again(
    fleet: FleetSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invitation = an_invitation(fleet, "ann")

    def lost(*asked: object) -> JoinAnswer:
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


def test_a_device_that_is_there_keeps_its_ratings_and_its_policy(
    fleet: FleetSettings, tmp_path: Path
) -> None:
    home = tmp_path / "ann"
    assert fedboard("ratings", "init", home, "--epsilon", "2", "--delta", "1e-7").exit_code == 0
    assert fedboard("ratings", "add", "i1", "4", "--device", home / "device.toml").exit_code == 0
    with pytest.raises(InputError, match="has a policy already"):
        join(an_invitation(fleet, "eve"), home, epsilon=9.0)

    join(an_invitation(fleet, "ann"), home)

    device = load_device(home / "device.toml")
    assert (device.policy.epsilon, device.policy.delta) == (2.0, 1e-7)
    assert device.server is not None
    assert "i1" in fedboard("ratings", "list", "--device", home / "device.toml").stdout


def test_a_limit_that_protects_little_is_not_proposed(
    fleet: FleetSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "MOST_UNASKED", 4.9)

    with pytest.raises(InputError, match="asks epsilon 5 of everybody, which protects little"):
        join(an_invitation(fleet, "ann"), tmp_path / "ann")

    assert admitted(fleet) == {}
    assert not (tmp_path / "ann").exists()


def test_a_server_with_other_keys_is_told_nothing(
    fleet: FleetSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody in between has a certificate or a fleet of his own: he sees neither secret nor key."""
    told: list[object] = []
    monkeypatch.setattr(joining, "ask_to_join", lambda *asked: told.append(asked))
    invitation = replace(an_invitation(fleet, "ann"), introduction=bytes(32))

    with pytest.raises(InputError, match="does not have the keys that this invitation names"):
        join(invitation, tmp_path / "ann", epsilon=3.0)

    assert told == []
    assert not (tmp_path / "ann").exists()


def test_the_right_introduction_without_the_authoritys_key_is_not_enough(
    fleet: FleetSettings, tmp_path: Path
) -> None:
    """The introduction is public: whoever was handed it hands it on. The certificate is what he lacks."""
    hostile = a_fleet(tmp_path / "hostile", "max_devices = 3")
    make_authority(tmp_path / "a.pem", tmp_path / "a.key", name="trial")
    files = {"authority": tmp_path / "a.pem", "authority_key": tmp_path / "a.key"}
    make_server_certificate(tmp_path / "s.pem", tmp_path / "s.key", names=(), **files)
    network = msgspec.structs.replace(hostile.network, certificate=tmp_path / "s.pem", key=tmp_path / "s.key")
    with door_of(msgspec.structs.replace(hostile, network=network)):
        invitation = an_invitation(hostile, "ann")  # its keys and its authority, but for the certificate
        with pytest.raises(InputError, match=r"does not vouch for this server.*nothing was told"):
            join(invitation, tmp_path / "ann", epsilon=3.0)

    with Register(StateFolder.of(hostile).members) as register:
        assert [one.name for one in register.invitations()] == ["ann"]


def post(
    fleet: FleetSettings, content: bytes, *, path: str = JOIN_PATH, method: str = "POST"
) -> tuple[int, bytes]:
    context = ssl.create_default_context(cafile=str(fleet.network.authority))
    connection = http.client.HTTPSConnection("127.0.0.1", fleet.network.port, timeout=10, context=context)
    try:
        connection.request(method, path, body=content)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_stranger_gets_in_by_nothing_else(fleet: FleetSettings, tmp_path: Path) -> None:
    invitation = an_invitation(fleet, "ann")
    public = make_node_key(tmp_path / "mine.key", name="x").read_text().strip()
    key = load_private_key(tmp_path / "mine.key")
    make_node_key(tmp_path / "other.key", name="x")
    others = (tmp_path / "other.pub").read_text().strip()
    identity = IdentityKey()
    named = {"secret": invitation.secret, "introduction": invitation.introduction, "version": "1"}
    honest = JoinRequest.made(key, public, identity, **named)  # type: ignore[arg-type]
    of_another = JoinRequest.made(key, others, identity, **named)  # type: ignore[arg-type]
    to_another = JoinRequest.made(key, public, identity, **{**named, "introduction": bytes(32)})  # type: ignore[arg-type]
    guessed = JoinRequest.made(key, public, identity, **{**named, "secret": bytes(32)})  # type: ignore[arg-type]
    eve = JoinRequest.made(key, public, IdentityKey(), **{**named, "secret": bytes(32)})  # type: ignore[arg-type]
    of_eve = {"identity": eve.identity, "identity_signature": eve.identity_signature}

    class Borrowed(IdentityKey):
        """Somebody else's identity, whose private half he lacks."""

        @property
        def public(self) -> bytes:
            return identity.public

    borrowed = JoinRequest.made(key, public, Borrowed(), **named)  # type: ignore[arg-type]
    p256 = "ecdsa-sha2-nistp256 AAAA"
    sent = {
        "unproven-key": (403, msgspec.json.encode(of_another)),
        "unproven-key ": (403, msgspec.json.encode(to_another)),
        "unproven-key  ": (403, msgspec.json.encode(msgspec.structs.replace(honest, identity="00" * 32))),
        "unproven-key   ": (403, msgspec.json.encode(msgspec.structs.replace(honest, **of_eve))),
        "unproven-key    ": (403, msgspec.json.encode(borrowed)),
        "unknown-invitation": (403, msgspec.json.encode(guessed)),
        "malformed": (400, b"{}"),
        "malformed ": (400, msgspec.json.encode(honest)[:-1]),
        "malformed  ": (400, b"[" * 5000),
        "malformed   ": (400, msgspec.json.encode(msgspec.structs.replace(honest, public_key=p256))),
        "malformed    ": (400, msgspec.json.encode({**msgspec.to_builtins(honest), "name": "root"})),
    }
    for code, (status, content) in sent.items():
        got = post(fleet, content)
        assert got[0] == status, (code, got)
        assert msgspec.json.decode(got[1], type=JoinAnswer).refused == code.strip()
    assert post(fleet, b"x" * 9000) == (413, b"too large")
    assert post(fleet, b"", method="GET")[0] == 404
    assert post(fleet, b"", path=f"{JOIN_PATH}?x=1")[0] == 404
    assert post(fleet, b"", path=f"{JOIN_PATH}/../introduction")[0] == 404
    assert admitted(fleet) == {}

    assert post(fleet, msgspec.json.encode(honest))[0] == 200
    assert list(admitted(fleet)) == ["ann"]


def test_a_removed_device_is_told_that_its_key_is_gone(fleet: FleetSettings, tmp_path: Path) -> None:
    invitation = an_invitation(fleet, "ann")
    join(invitation, tmp_path / "ann", epsilon=3.0)
    config = fleet.network.authority.parent / "fleet.toml"
    assert fedboard("fleet", "remove", "ann", "--config", config).stdout == "ann is removed\n"
    (tmp_path / "ann" / "device.toml").unlink()

    with pytest.raises(
        NotAdmittedError, match=r"removed by the fleet; move node\.key and identity\.key away"
    ):
        join(invitation, tmp_path / "ann", epsilon=3.0)
    assert fedboard("fleet", "remove", "ann", "--config", config).exit_code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("ann", "--users", "6"), "at most enrolment.max_users_per_device = 5"),
        (("ann", "--hours", "0"), "--hours must be in (0, 8760]"),
        (("a/b",), "NAME must be letters"),
        (("a",), "a device or an open invitation is called 'a'"),
    ],
)
def test_what_cannot_be_invited_is_said(
    fleet: FleetSettings, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    config = fleet.network.authority.parent / "fleet.toml"

    refused = fedboard("fleet", "invite", *words, "--config", config, "--out", tmp_path / "invitation")

    assert refused.exit_code == 2
    assert told in refused.stderr
    assert not (tmp_path / "invitation").exists()


def test_an_address_that_the_certificate_is_not_for_is_refused(fleet: FleetSettings, tmp_path: Path) -> None:
    config = fleet.network.authority.parent / "fleet.toml"
    other = config.with_name("other.toml")
    other.write_text(config.read_text().replace('\naddress = "127.0.0.1:', '\naddress = "elsewhere.example:'))

    refused = fedboard("fleet", "invite", "ann", "--config", other)

    assert refused.exit_code == 2
    assert "is valid for localhost, 127.0.0.1 and not for elsewhere.example" in refused.stderr
