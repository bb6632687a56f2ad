"""``fedboard keys``: keys of those who are not the operator's machine, and what becomes of keys later."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.declaring import Commands, argument, command, option
from fedboard.cli.documents import JSON, answer
from fedboard.cli.exit_codes import ExitCode
from fedboard.cli.options import DAYS, ROOTS
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.server.publishing.expiring import Expiry


PATH = click.Path(path_type=Path)
_AT_LEAST_ONE = click.IntRange(min=1)


def _public_keys(text: str, flag: str) -> Any:
    return option(text, flag, type=PATH, multiple=True)


_TERMS = {
    "holders": _public_keys("Public key of a root holder.", "--holder"),
    "threshold": option("How many holders must sign a root.", type=_AT_LEAST_ONE),
    "boards": _public_keys("Public key that signs boards.", "--board-key"),
    "board_threshold": option("How many must sign a board.", type=_AT_LEAST_ONE),
    "questions": _public_keys("Public key that signs what devices are asked.", "--question-key"),
    "witnesses": _public_keys("Public key of a witness of boards.", "--witness"),
    "cosignatures": option("How many of them must cosign.", type=_AT_LEAST_ONE),
}
"""What a root says of who signs what."""


@click.group(cls=Commands)
def keys() -> None:
    """Make keys, replace them, sign for others, and see what expires.

    `fedboard fleet init` makes all that the machine of a fleet's operator needs. Private keys are readable by their
    owner only, and none is overwritten.
    """


@command(
    "fedboard keys rotate keys/roots --board-key new.pub --sign alice.key --sign bob.key",
    "fedboard keys rotate keys/roots --holder a.pub --holder b.pub --threshold 2 --sign keys/holder.key",
    group=keys,
    also=_TERMS,
)
def rotate(
    folder: Path = argument("ROOTS"),
    days: float = option("How long the root is good.", type=DAYS.settings["type"], default=365.0),
    signers: tuple[Path, ...] = option(
        "A holder's private key to sign with here; others sign with keys sign.", "--sign"
    ),
    former: Path | None = option(
        "Of a first root: the private key that readers have pinned so far, who follow from it.",
        "--instead-of",
        metavar="KEY",
        rare=True,
    ),
    **terms: Any,
) -> None:
    """Make the next root, or the first: with other keys, or with the same ones and a later expiry.

    What is not given stays; a key that is left out is revoked: it signs nothing any more that readers take. The
    root counts when enough holders of the root before and of itself have signed it: with --sign here, or keys sign
    where their keys are. A server that has ROOTS in its keys folder publishes it then, and signs its boards again.
    """
    from fedboard.cli.fleet.root_keys import rotate_roots

    rotate_roots(folder, signers, former=former, days=days, terms=terms)


@command(
    "fedboard keys renew keys                             another certificate for the server's key",
    "fedboard keys renew keys --name fleet.example.org    for another name",
    "fedboard keys renew mirror --key keys/boards.key     a later expiry of the newest board",
    group=keys,
)
def renew(
    place: Path,
    names: tuple[str, ...] = option(
        "Of the server: names or addresses that devices use.  [default: as now]", "--name"
    ),
    keys: tuple[Path, ...] = option("Of a mirror: the private keys that sign boards.", "--key"),
    roots: Path | None = ROOTS,
    days: float = DAYS,
) -> None:
    """Renew what expires by itself: the server's certificate, or the signature on a mirror's newest board.

    PLACE is a keys folder, with authority.key in it for the moment: server.key stays, unless it was moved away. Or
    it is a mirror that lies on a web server: nothing is trained, no board changes, and after a rotation all that
    the old key signed is signed again. A running server renews its own mirror. Where witnesses are waited for, they
    cosign it too before it is shown.
    """
    if (place / "authority.pem").exists():
        from fedboard.server.fleet.state_folder import KeysFolder
        from fedboard.server.tls import make_server_certificate, names_of

        own = KeysFolder(place)
        make_server_certificate(
            own.certificate, own.key, authority=own.authority, authority_key=own.authority_key, names=names
        )
        click.echo(f"{own.certificate}: for {', '.join(names_of(own.certificate))}; start the server again")
        return
    if names or not keys:
        raise InputError(
            f"{place}: a mirror needs --key, a keys folder has authority.pem and takes --name alone"
        )
    from fedboard.server.publishing.mirror import Mirror, Signer, chain_for, renew_into
    from fedboard.server.publishing.signing import SigningKey

    mirror = Mirror(place)
    chain = mirror.chain()
    if not chain:
        raise InputError(f"{place}: no signed boards there; make them with: fedboard board export")
    run = chain[-1].manifest.run
    signer = Signer(key=SigningKey.read(*keys), run=run, days=days, chain=chain_for(mirror, roots))
    newest = renew_into(mirror, signer)
    if newest is not None:
        click.echo(f"version {newest.manifest.version} of {run}: good until {newest.manifest.expires}")
    if (waiting := mirror.waiting()) is not None:
        click.echo(f"not shown yet: {waiting}")


@command("fedboard keys show keys mirror", group=keys)
def show(places: tuple[Path, ...] = argument("PLACE...", required=True), as_json: bool = JSON) -> int:
    """Show who may sign, and what expires when: of keys folders, roots, mirrors, and TLS certificates (PEM).

    The exit code is 1 where something has expired, so that a timer can watch it.
    """
    now = time.time()
    records: list[dict[str, Any]] = []
    lines: list[str] = []
    for place in [part for named in places for part in _parts(named)]:
        says, expiries = _looked_at(place)
        told = [
            {"what": one.what, "at": one.at, "days": one.days(now), "soon": one.is_soon(now)}
            for one in expiries
        ]
        records.append({"place": str(place), "says": says, "expiries": told})
        lines += [*says, *(one.sentence(now) for one in expiries)]
    answer({"places": records}, "\n".join(lines), as_json=as_json)
    expired = any(one["days"] < 0 for record in records for one in record["expiries"])
    return ExitCode.FAILED if expired else ExitCode.DONE


def _parts(place: Path) -> list[Path]:
    """What there is to show of a keys folder; any other place is itself."""
    if not (place / "authority.pem").exists():
        return [place]
    return [part for name in ("authority.pem", "server.pem", "roots") if (part := place / name).exists()]


def _looked_at(place: Path) -> "tuple[list[str], list[Expiry]]":
    from fedboard.common.boards.layout import LATEST, ROOTS
    from fedboard.server.publishing.expiring import certificate_expiry, mirror_expiries, root_expiry

    if place.is_file():
        found = certificate_expiry(place, remedy="make a new one: fedboard keys renew")
        if found is None:
            raise InputError(f"{place}: no certificate in PEM form can be read there")
        return [], [found]
    from fedboard.cli.fleet.root_keys import roots_said

    if (place / LATEST).is_file():
        return roots_said(place / ROOTS), mirror_expiries(place)
    lines, root = roots_said(place), root_expiry(place)
    if not lines:
        raise InputError(f"{place}: neither a folder of roots, nor a mirror, nor a certificate")
    return lines, [] if root is None else [root]


_KINDS = {
    "holder": ("keep it offline", "for fedboard keys rotate --holder"),
    "witness": (
        "for fedboard witness --key; it stays here",
        "for witnesses of fleet.toml, and of every device.toml: {}",
    ),
    "identity": (
        "for [server] in device.toml; it stays on this device",
        "for whoever keeps the list of devices, fedboard keys sign",
    ),
    "roster-authority": (
        "keep it off the server; it signs lists with: fedboard keys sign",
        'vouched_by = "{}", for [policy] of every device.toml and [protocol] settings',
    ),
    "boards": (
        "for the server's keys folder, where boards-*.key sign beside boards.key",
        "for fedboard keys rotate --board-key",
    ),
    "questions": (
        "for the server's keys folder, as questions.key",
        "for fedboard keys rotate --question-key",
    ),
    "authority": (
        "keep it off the server; it signs the server's certificate with: fedboard keys renew",
        "for the server's keys folder, from where every device gets it",
    ),
}
"""Where the private half of a key pair stays, and where the public half goes."""
_KIND = click.Choice(list(_KINDS))


@command(
    "fedboard keys new holder --name alice      who signs the root, offline",
    "fedboard keys new witness                  who cosigns boards, elsewhere",
    "fedboard keys new boards --name boards-2   a further or the next signing key",
    group=keys,
)
def new(
    kind: str = argument(type=_KIND),
    folder: Path = option("Folder of the files.", "--out", default=Path("keys")),
    name: str | None = option("Name of the files, or of the fleet for an authority.  [default: KIND]"),
) -> None:
    """Make the key pair of a KIND of party, where that party is: NAME.key stays there, NAME.pub is for others.

    A holder signs roots, a witness cosigns boards, a roster authority signs lists of devices; identity is a
    device's. Boards and questions are signed by the server, whose certificate the authority signs.
    """
    from fedboard.server.fleet.settings import NAME_RULE, is_name

    name = kind if name is None else name
    if not is_name(name):
        raise InputError(f"--name must be {NAME_RULE}, got {name!r}; files elsewhere: --out FOLDER")
    stays, goes = _KINDS[kind]
    if kind == "authority":
        from fedboard.server.tls import make_authority

        public, private = folder / "authority.pem", folder / "authority.key"
        make_authority(public, private, name=name)
    else:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        from fedboard.common.boards.ed25519_keys import write_pair

        key = Ed25519PrivateKey.generate()
        private, public = folder / f"{name}.key", folder / f"{name}.pub"
        write_pair(key, private=private, public=public)
        goes = goes.format(key.public_key().public_bytes_raw().hex())
    click.echo(f"{private}: {stays}")
    click.echo(f"{public}: {goes}")


@command(
    "fedboard keys sign roots/2.root.json --key alice.key",
    "fedboard keys sign keys/roster.json phones/*.pub --fleet films --key roster-authority.key",
    group=keys,
)
def sign(
    path: Path = argument("FILE"),
    devices: tuple[Path, ...] = argument("[DEVICE]..."),
    signers: tuple[Path, ...] = option("Private key to sign with.", "--key", required=True),
    fleet: str | None = option("Of a list: name of the fleet whose devices these are."),
    days: float = option(
        "Of a list: until it is over.", type=click.FloatRange(0, 3650, min_open=True), default=90.0
    ),
) -> None:
    """Sign a root as one of its holders, or a list of devices as their authority.

    FILE is N.root.json, with the roots before it beside it, so that you see what changes; or the list, of all
    DEVICEs (their identity.pub): one that is left out takes part no more. Read what is printed before you send the
    file on: it is what you have signed.
    """
    if path.name.endswith(".root.json"):
        if devices or fleet:
            raise InputError(f"{path} is a root, which names no devices: leave DEVICE and --fleet out")
        from fedboard.cli.fleet.root_keys import sign_root

        sign_root(path, signers)
    else:
        if not devices or not fleet or len(signers) != 1:
            raise InputError(
                f"{path}: a list of devices takes DEVICE..., --fleet and one --key; a root is a file N.root.json"
            )
        _sign_list(path, devices, signers[0], fleet=fleet, days=days)


def _sign_list(path: Path, devices: tuple[Path, ...], signer: Path, *, fleet: str, days: float) -> None:
    from fedboard.common.boards.roster import Roster, RosterAuthority, public_key
    from fedboard.common.files import write_atomically

    signing = RosterAuthority.load(signer)
    number = Roster.load(path, authority=signing.public).number + 1 if path.exists() else 1
    listed = [public_key(device) for device in devices]
    signed = signing.sign(listed, fleet=fleet, number=number, seconds=days * 86_400)
    write_atomically(path, signed.content)
    click.echo(f"{path}: list {number} of {fleet}, {len(listed)} devices, for {days:g} days")
    click.echo(f'vouched_by = "{signing.public.hex()}"')
