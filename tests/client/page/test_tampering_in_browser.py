"""What is signed, cosigned and certified, each changed by somebody; over https, plain http, from a file, sandboxed.

Over plain http, and sandboxed in such a page, browsers withhold their cryptography: the page's own does the same.
"""

import functools
import hashlib
import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.client.page.boards import held_board, pins_of
from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.boards.refusals import FeedRefusedError
from fedboard.common.boards.witnesses import Witnesses, cosigned
from fedboard.common.errors import InputError
from fedboard.server.publishing.signing import SigningKey
from fedboard.server.tls import make_authority, make_server_certificate
from tests.client.page.browser import Page
from tests.client.page.pages import Signed, carrying, claiming, edited
from tests.common.boards.boards import another, chain

pytestmark = pytest.mark.slow

Change = Callable[[dict[str, Any], Signed], None]
STEPS = ("signature", "bytes", "chain", "witnesses", "promise", "noise")
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))


def flipped(digits: str) -> str:
    return f"{int(digits[0], 16) ^ 1:x}{digits[1:]}"


def of_signed(change: Callable[[dict[str, Any], Signed], Any]) -> Change:
    """A change of the newest signed manifest, given as it stands in the page."""
    return lambda data, world: change(data["board"]["signed"], world)


def restated(sign: Callable[[Signed, str], Any], **stated: Any) -> Change:
    """Somebody signs a manifest that says something else."""

    def change(data: dict[str, Any], world: Signed) -> None:
        content = msgspec.structs.replace(world.link(4).manifest, **stated).to_bytes().decode()
        data["board"] |= {"signed": msgspec.to_builtins(sign(world, content)), "earlier": []}

    return change


def by_all(world: Signed, content: str) -> Any:
    return world.cosigned(content)


def by_the_operator(world: Signed, content: str) -> Any:
    """Who has the key, and no witness in their league."""
    return msgspec.structs.replace(world.cosigned(content), cosignatures=())


def board_of(
    data: dict[str, Any], world: Signed, board: Board, *, sign: Callable[[Signed, str], Any]
) -> None:
    """Another board with a manifest that is about it."""
    content = board.to_bytes()
    file = msgspec.structs.replace(
        world.link(4).manifest.file, board_sha256=_sha256(content), board_size=len(content)
    )
    certificate = board.certificate or {}
    restated(sign, board_digest=board.digest, certificate_digest=certificate["digest"], file=file)(
        data, world
    )
    carrying(data["board"], content)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def older(data: dict[str, Any], world: Signed) -> None:
    """What all signed and cosigned, a board ago."""
    data["board"] |= {"signed": msgspec.to_builtins(world.link(3).signed), "earlier": []}
    carrying(data["board"], chain(3)[1].to_bytes())


def of_one_witness(signed: dict[str, Any], world: Signed) -> None:
    signed["cosignatures"] = signed["cosignatures"][:1] * 3


def of_strangers(signed: dict[str, Any], world: Signed) -> None:
    """One of a witness, and one of a key that nobody pinned, under its own name and under another's."""
    made = msgspec.to_builtins(cosigned(OTHER, signed["content"].encode()))
    named = made | {"key": world.witness_keys[1].public_key().public_bytes_raw().hex()}
    signed["cosignatures"] = [signed["cosignatures"][0], made, named]


def of_another_manifest(signed: dict[str, Any], world: Signed) -> None:
    signed["cosignatures"] = msgspec.to_builtins(world.link(3).signed)["cosignatures"]


def as_signatures(signed: dict[str, Any], world: Signed) -> None:
    """The witnesses' keys sign it as a board's key does: that is no cosignature."""
    signed["cosignatures"] = [
        {
            "key": key.public_key().public_bytes_raw().hex(),
            "signature": world.cosigned(signed["content"], signer=SigningKey(key)).signatures[0],
        }
        for key in world.witness_keys
    ]


ATTACKS: dict[str, tuple[Change, str]] = {
    "a byte of the manifest": (
        of_signed(lambda one, _: one.update(content=one["content"].replace('"version":4', '"version":5'))),
        "signature",
    ),
    "a space behind the manifest": (
        of_signed(lambda one, _: one.update(content=one["content"] + " ")),
        "signature",
    ),
    "a bit of the signature": (
        of_signed(lambda one, _: one.update(signatures=[flipped(one["signatures"][0])])),
        "signature",
    ),
    "the signature of another key": (
        of_signed(
            lambda one, world: one.update(
                signatures=world.cosigned(one["content"], signer=SigningKey(OTHER)).signatures
            )
        ),
        "signature",
    ),
    "no signature": (of_signed(lambda one, _: one.update(signatures=[])), "signature"),
    "nothing signed": (lambda data, _: data["board"].update(signed=None, earlier=[]), "signature"),
    "older than pinned": (older, "signature"),
    "another run of the same key": (restated(by_all, run_id="cd" * 16), "signature"),
    "expired": (restated(by_all, expires="2026-01-03T00:00:00Z"), "signature"),
    "cosignatures missing": (
        of_signed(lambda one, _: one.update(cosignatures=one["cosignatures"][:1])),
        "witnesses",
    ),
    "cosignatures false": (
        of_signed(
            lambda one, _: [
                made.update(signature=flipped(made["signature"])) for made in one["cosignatures"][:2]
            ]
        ),
        "witnesses",
    ),
    "one cosignature three times": (of_signed(of_one_witness), "witnesses"),
    "cosignatures of other keys": (of_signed(of_strangers), "witnesses"),
    "cosignatures of another manifest": (of_signed(of_another_manifest), "witnesses"),
    "cosignatures in the form of signatures": (of_signed(as_signatures), "witnesses"),
    "another board of the version, by the operator alone": (
        lambda data, world: board_of(data, world, another(world.newest), sign=by_the_operator),
        "witnesses",
    ),
    "a chain with a gap": (lambda data, _: data["board"]["earlier"].pop(0), "chain"),
    "a byte of an earlier manifest": (
        lambda data, _: data["board"]["earlier"][0].update(
            content=data["board"]["earlier"][0]["content"].replace('"renewal":0', '"renewal":1')
        ),
        "chain",
    ),
    "another ledger": (restated(by_all, releases=9), "chain"),
    "a byte of the board": (
        lambda data, world: carrying(
            data["board"],
            (own := world.newest.to_bytes())[:5000] + bytes([own[5000] ^ 1]) + own[5001:],
        ),
        "bytes",
    ),
    "another certificate": (
        lambda data, world: carrying(data["board"], claiming(world.newest, 0.1).to_bytes()),
        "bytes",
    ),
    "another certificate, signed and cosigned": (
        lambda data, world: board_of(data, world, claiming(world.newest, 0.1), sign=by_all),
        "promise",
    ),
}
"""What is done to the page's data, and the step that must fail."""


@pytest.fixture(scope="module")
def pages(witnessed: Signed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them in a folder, and beside each one that holds it in a sandbox."""
    made = {name: edited(witnessed.page, functools.partial(_applied, change, witnessed), f"tampered-{n}")
            for n, (name, (change, _)) in enumerate(ATTACKS.items())}  # fmt: skip
    folder = tmp_path_factory.mktemp("tampered")
    for name, path in {"sound": witnessed.page, **made}.items():
        place = folder / f"{name.replace(' ', '-').replace(',', '')}.html"
        place.write_bytes(path.read_bytes())
        sandbox = f'<!doctype html><iframe sandbox="allow-scripts" src="{place.name}"></iframe>'
        (folder / f"sandboxed-{place.name}").write_text(sandbox, encoding="utf-8")
    return folder


def _applied(change: Change, world: Signed, data: dict[str, Any]) -> None:
    change(data, world)


@contextmanager
def served(folder: Path, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def over(way: str, folder: Path) -> Iterator[str]:
    """Where the folder is, opened in this way."""
    if way == "file":
        yield folder.as_uri()
    elif way == "https":
        with TemporaryDirectory() as made, served(folder, _tls(Path(made))) as port:
            yield f"https://localhost:{port}"
    else:
        with served(folder) as port:
            yield f"http://plain.test:{port}"


def _tls(folder: Path) -> ssl.SSLContext:
    """Of a server whose authority nobody knows; this browser does not ask."""
    authority, certificate = (
        {"certificate": folder / f"{name}.pem", "key": folder / f"{name}.key"} for name in ("own", "server")
    )
    make_authority(**authority, name="tampered")
    own = {"authority": authority["certificate"], "authority_key": authority["key"]}
    make_server_certificate(**certificate, **own, names=["localhost"])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate["certificate"], certificate["key"])
    return tls


LOOKED_AT = """
const rows = [...document.querySelectorAll("#seal-steps li")];
return {
  origin: self.origin,
  own: globalThis.crypto?.subtle === undefined,
  seal: document.documentElement.dataset.seal,
  steps: Object.fromEntries(rows.map((row) => [row.dataset.step, row.dataset.state])),
  shown: !document.querySelector("#app").hidden,
  listed: document.querySelectorAll("#list li, #known li").length,
};
"""


@pytest.mark.parametrize("way", ["https", "plain http", "file", "sandboxed", "sandboxed, plain http"])
def test_whatever_somebody_changed_is_refused_however_the_page_is_opened(
    page: Page, pages: Path, way: str
) -> None:
    sandboxed = way.startswith("sandboxed")
    found = {}
    with over({"sandboxed": "https"}.get(way, way.removeprefix("sandboxed, ")), pages) as address:
        for name in ("sound", *ATTACKS):
            place = f"{name.replace(' ', '-').replace(',', '')}.html"
            page.driver.get(f"{address}/{'sandboxed-' if sandboxed else ''}{place}")
            if sandboxed:
                page.driver.switch_to.frame(0)
            page.until("return 'ready' in document.documentElement.dataset")
            found[name] = page.js(LOOKED_AT)
            page.driver.switch_to.default_content()
    page.console()

    sound = found.pop("sound")
    assert sound["own"] == ("plain" in way)
    assert (sound["origin"] == "null") == (sandboxed or way == "file")
    assert (sound["seal"], sound["steps"], sound["shown"]) == ("passed", dict.fromkeys(STEPS, "passed"), True)
    assert sound["listed"] > 10
    failed = {name: one["steps"][ATTACKS[name][1]] for name, one in found.items()}
    assert failed == dict.fromkeys(ATTACKS, "failed")
    assert {(one["seal"], one["shown"], one["listed"]) for one in found.values()} == {("failed", False, 0)}
    alone = {name for name, (_, step) in ATTACKS.items() if step in ("witnesses", "promise")}
    for name in alone:  # nothing else tells
        others = {step: state for step, state in found[name]["steps"].items() if step != ATTACKS[name][1]}
        assert set(others.values()) == {"passed"}, name


def test_a_sandboxed_page_recommends_and_keeps_nothing(page: Page, pages: Path) -> None:
    with over("https", pages) as address:
        page.driver.get(f"{address}/sandboxed-sound.html")
        page.driver.switch_to.frame(0)
        page.until("return 'ready' in document.documentElement.dataset")
        page.js("fedboard.taste.rate(3, 5); document.querySelector('#keep').click()")
        told = page.text("#toast"), page.js("return document.querySelector('#keep').checked")
        because = page.text("#list .why")
        page.driver.switch_to.default_content()
    page.console()

    assert "does not keep this for pages like this one" in told[0]
    assert told[1] is False
    assert "ratings" in because or "because" in because


def test_the_seal_names_who_has_cosigned_and_how_many_may_lie(page: Page, witnessed: Signed) -> None:
    page.open(witnessed.page)

    told = page.text('#seal-steps [data-step="witnesses"]')

    assert "3 of 3 witnesses have cosigned it" in told
    assert "and 2 must; none of them may lie" in told


def test_a_page_pins_whom_its_writer_pinned_and_is_not_written_where_too_few_cosigned(
    witnessed: Signed, signed: Signed
) -> None:
    held = held_board(str(witnessed.mirror.folder), key=witnessed.pinned)
    pins = pins_of(held, witnessed.pinned)

    keys = [key.public_key().public_bytes_raw() for key in witnessed.witness_keys]
    assert (pins["witnesses"], pins["cosignatures"]) == ([key.hex() for key in keys], 2)
    assert pins["keys"] == [witnessed.key.public.raw.hex()]
    assert held.entry()["oldest"] == {
        "run_id": witnessed.link(4).manifest.run_id,
        "version": 4,
        "renewal": 0,
    }
    strangers = PinnedKey.read(signed.public, witnesses=Witnesses(tuple(keys), 2))
    with pytest.raises(FeedRefusedError, match="not-witnessed"):
        held_board(str(signed.mirror.folder), key=strangers)
    with pytest.raises(InputError, match="mirror"):
        held_board(str(witnessed.folder / "boards"), key=witnessed.pinned)
