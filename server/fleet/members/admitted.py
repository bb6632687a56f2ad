"""Whose calls count: the public keys of the devices that the register admits at this moment."""

from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedboard.server.fleet.members.register import Register


class Admitted:
    """The keys, read anew whenever anybody has changed the register. One thread uses it."""

    def __init__(self, register: Register) -> None:
        """Nothing is read yet."""
        self._register = register
        self._state: tuple[int, int] | None = None
        self._keys: dict[str, Ed25519PublicKey] = {}

    def now(self) -> tuple[Mapping[str, Ed25519PublicKey], bool]:
        """Public key by its name, and whether they are others than at the last call.

        Raises:
            sqlite3.Error: it is not known who is admitted, so nobody is to be let in.
        """
        state = self._register.state()
        if state == self._state:
            return self._keys, False
        names = [member.key for member in self._register.admitted()]
        self._keys = {
            name: self._keys.get(name) or Ed25519PublicKey.from_public_bytes(bytes.fromhex(name))
            for name in names
        }
        self._state = state
        return self._keys, True
