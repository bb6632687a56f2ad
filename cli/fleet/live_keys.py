"""``fedboard keys renew`` and ``keys show``: what is signed, and until when it is good."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.exit_codes import ExitCode
from fedboard.cli.fleet.root_keys import said_of
from fedboard.cli.signing_options import DAYS, ROOTS
from fedboard.cli.style.documents import JSON, document
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.server.publishing.expiring import Expiry

_PATH = click.Path(path_type=Path)


@click.command(
    epilog="""\b
Examples:
  fedboard keys renew keys                             another certificate for the server's key
  fedboard keys renew keys --name fleet.example.org    for another name
  fedboard keys renew mirror --key keys/boards.key     a later expiry of the newest board
"""
)
@click.argument("place", type=_PATH)
@click.option(
    "--name",
    "names",
    multiple=True,
    help="Of the server: names or addresses that devices use.  [default: as now]",
)
@click.option(
    "--key", "keys", type=_PATH, multiple=True, help="Of a mirror: the private keys that sign boards."
)
@ROOTS
@DAYS
def renew(
    place: Path, names: tuple[str, ...], keys: tuple[Path, ...], roots: Path | None, days: float
) -> None:
    """Renew what expires by itself: the server's certificate, or the signature on a mirror's newest board.

    PLACE is a keys folder, with authority.key in it for the moment: server.key stays, unless it was moved away. Or
    it is a mirror that lies on a web server: nothing is trained, no board changes, and after a rotation all that
    the old key signed is signed again. A running server renews its own mirror. Where witnesses are waited for, they
    cosign it too before it is shown.
    """
    if (place / "authority.pem").exists():
        _renew_certificate(place, names)
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


def _renew_certificate(folder: Path, names: tuple[str, ...]) -> None:
    from fedboard.server.fleet.plan.state_folder import KeysFolder
    from fedboard.server.tls import names_of, renew_server_certificate

    keys = KeysFolder(folder)
    renew_server_certificate(
        keys.certificate, keys.key, authority=keys.authority, authority_key=keys.authority_key, names=names
    )
    click.echo(f"{keys.certificate}: for {', '.join(names_of(keys.certificate))}; start the server again")


@click.command(epilog="Example: fedboard keys show keys mirror")
@click.argument("places", metavar="PLACE...", nargs=-1, required=True, type=_PATH)
@JSON
def show(places: tuple[Path, ...], as_json: bool) -> int:
    """Show who may sign, and what expires when: of keys folders, roots, mirrors, and TLS certificates (PEM).

    The exit code is 1 where something has expired, so that a timer can watch it.
    """
    now, every = time.time(), [part for place in places for part in _parts(place)]
    found = [(place, *_looked_at(place)) for place in every]
    if as_json:
        document({"places": [_record(place, lines, expiries, now) for place, lines, expiries in found]})
    else:
        for _, lines, expiries in found:
            for line in (*lines, *(one.sentence(now) for one in expiries)):
                click.echo(line)
    expired = any(one.days(now) < 0 for _, _, expiries in found for one in expiries)
    return ExitCode.FAILED if expired else ExitCode.DONE


def _parts(place: Path) -> list[Path]:
    """What there is to show of a keys folder; any other place is itself."""
    if not (place / "authority.pem").exists():
        return [place]
    return [part for name in ("authority.pem", "server.pem", "roots") if (part := place / name).exists()]


def _looked_at(place: Path) -> "tuple[list[str], list[Expiry]]":
    from fedboard.common.boards.layout import LATEST, ROOTS
    from fedboard.server.publishing.expiring import (
        certificate_expiry,
        mirror_expiries,
        root_expiry,
    )

    if place.is_file():
        found = certificate_expiry(place, remedy="make a new one: fedboard keys renew")
        if found is None:
            raise InputError(f"{place}: no certificate in PEM form can be read there")
        return [], [found]
    if (place / LATEST).is_file():
        return _of_roots(place / ROOTS), mirror_expiries(place)
    lines, root = _of_roots(place), root_expiry(place)
    if not lines:
        raise InputError(f"{place}: neither a folder of roots, nor a mirror, nor a certificate")
    return lines, [] if root is None else [root]


def _of_roots(place: Path) -> list[str]:
    from fedboard.common.keys.roots import RootError, RootFolder
    from fedboard.server.operating.drafting import before, standing

    folder = RootFolder(place)
    chain, draft = folder.chain(), folder.draft
    lines = said_of(chain[-1].content or b"") if chain else []
    if draft is not None:
        try:
            content = folder.content(draft)
            missing = standing(content, before=before(folder, draft))
            lines += ["draft, which does not count yet:", *said_of(content), f"  {'; '.join(missing)}"]
        except RootError as error:
            raise InputError(f"{folder.path(draft)}: {error}") from error
    return lines


def _record(place: Path, lines: list[str], expiries: "list[Expiry]", now: float) -> dict[str, Any]:
    return {
        "place": str(place),
        "says": lines,
        "expiries": [
            {"what": one.what, "at": one.at, "days": one.days(now), "soon": one.is_soon(now)}
            for one in expiries
        ],
    }
