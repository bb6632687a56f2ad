"""``fedboard keys renew`` and ``keys show``: what is signed, and until when it is good."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.exit_codes import ExitCode
from fedboard.cli.fleet.root_keys import said_of
from fedboard.cli.signing_options import DAYS, ROOTS, SIGNING_KEYS
from fedboard.cli.style.documents import JSON, document
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.server.publishing.upkeep.expiring import Expiry

_PATH = click.Path(path_type=Path)


@click.command(epilog="Example: fedboard keys renew mirror --key board-signing.key")
@click.argument("mirror", type=_PATH)
@SIGNING_KEYS
@ROOTS
@DAYS
def renew(mirror: Path, keys: tuple[Path, ...], roots: Path | None, days: float) -> None:
    """Sign the newest board of a mirror again, with a later expiry; after a rotation, all that the old key signed.

    Nothing is trained, no board changes. A running board service with --boards does it by itself; this is for
    mirrors that lie on a web server. No other process may be writing the mirror.
    """
    from fedboard.common.boards.layout import LOG_PROOF
    from fedboard.server.publishing.mirror_files import Mirror
    from fedboard.server.publishing.signing import SigningKey
    from fedboard.server.publishing.upkeep.renewing import renew as sign_again
    from fedboard.server.publishing.upkeep.signers import Signer, chain_for

    place = Mirror(mirror)
    if not place.versions():
        raise InputError(f"{mirror}: no signed boards there; make them with: fedboard board export")
    if (mirror / LOG_PROOF).exists():
        raise InputError(
            f"{mirror}: its boards are in a log, which must have every signature that readers with witnesses are "
            "to take; fedboard board export with --log signs again what is due, and logs it"
        )
    signer = Signer(key=SigningKey.read(*keys), run=place.run(), days=days, chain=chain_for(mirror, roots))
    newest = sign_again(place, signer, now=True)
    if newest is not None:
        click.echo(f"version {newest.version} of {newest.run}: good until {newest.expires}")


@click.command(epilog="Example: fedboard keys show roots mirror keys/server.pem")
@click.argument("places", metavar="PLACE...", nargs=-1, required=True, type=_PATH)
@JSON
def show(places: tuple[Path, ...], as_json: bool) -> int:
    """Show who may sign, and what expires when: of folders of roots, mirrors, and TLS certificates (PEM).

    The exit code is 1 where something has expired, so that a timer can watch it.
    """
    now, found = time.time(), [(place, *_looked_at(place)) for place in places]
    if as_json:
        document({"places": [_record(place, lines, expiries, now) for place, lines, expiries in found]})
    else:
        for _, lines, expiries in found:
            for line in (*lines, *(one.sentence(now) for one in expiries)):
                click.echo(line)
    expired = any(one.days(now) < 0 for _, _, expiries in found for one in expiries)
    return ExitCode.FAILED if expired else ExitCode.DONE


def _looked_at(place: Path) -> "tuple[list[str], list[Expiry]]":
    from fedboard.common.boards.layout import LATEST, ROOTS
    from fedboard.server.publishing.upkeep.expiring import (
        certificate_expiry,
        mirror_expiries,
        root_expiry,
    )

    if place.is_file():
        found = certificate_expiry(place, remedy="make a new one: fedboard keys server")
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
    from fedboard.common.keys.root_folder import RootFolder
    from fedboard.common.keys.roots import RootError
    from fedboard.server.operating.roots.drafting import before, standing

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
