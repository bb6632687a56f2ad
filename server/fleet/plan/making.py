"""The keys of a new fleet, all on the machine of its operator, and one of them anew."""

from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.common.keys.ed25519_keys import write_pair
from fedboard.common.keys.roots import Role, RootFolder
from fedboard.server.fleet.plan.state_folder import KeysFolder
from fedboard.server.operating.drafting import USUAL_DAYS, Terms, drafted, signed_by
from fedboard.server.tls import make_authority, make_server_certificate

HOLDER = "holder.key"
"""Signs who may sign: whoever takes it off this machine has made the first of the offline holders."""


def make_keys(folder: Path, *, name: str, hosts: Sequence[str]) -> KeysFolder:
    """Make every key that a fleet's own machine needs, and its first root, which names them.

    Args:
        folder: new or empty of keys.
        name: of the fleet.
        hosts: names and addresses that devices use.

    Raises:
        InputError: there are keys already; none is ever overwritten.
    """
    keys = KeysFolder(folder)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(
            f"{folder}: there are files already, and no key is ever overwritten; choose another one"
        )
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    make_authority(keys.authority, keys.authority_key, name=name)
    make_server_certificate(
        keys.certificate, keys.key, authority=keys.authority, authority_key=keys.authority_key, names=hosts
    )
    holder, boards, questions = (Ed25519PrivateKey.generate() for _ in range(3))
    for key, place in ((holder, folder / HOLDER), (boards, keys.boards[0]), (questions, keys.questions)):
        write_pair(key, private=place, public=place.with_suffix(".pub"))
    terms = Terms(holders=_alone(holder), boards=_alone(boards), questions=_alone(questions))
    root = signed_by(drafted(terms, version=1, days=USUAL_DAYS), [holder], before=None)
    roots = RootFolder(folder / "roots")
    roots.folder.mkdir()
    write_atomically(roots.path(1), root)
    return keys


def _alone(key: Ed25519PrivateKey) -> Role:
    return Role((key.public_key().public_bytes_raw(),), 1)
