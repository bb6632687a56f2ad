"""Keeping Flower's own list of nodes to the register of devices, while the server runs."""

from collections.abc import Callable

from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.control import Control


class Admission:
    """Tells the SuperLink who is admitted, at its start and whenever the register has changed.

    The door and the round loop read the register themselves: who is removed is out before the SuperLink knows it,
    and who joined is asked once it does.
    """

    def __init__(self, control: Control, state: StateFolder, *, say: Callable[[str], None]) -> None:
        """Make ready.

        Args:
            control: of the SuperLink.
            state: has the register.
            say: takes sentences for the operator.
        """
        self._control, self._register, self._say = control, Register(state.members), say
        self._told: dict[str, str] = {}
        self._state: tuple[int, int] | None = None

    def begin(self) -> None:
        """After a start of the SuperLink: register everybody, and nobody else."""
        state, names = self._register.state(), self._names()
        self._tell_refused(self._control.admit(names))
        self._state, self._told = state, names

    def look(self) -> None:
        """Tell what has changed since, and say who came and who is gone."""
        state = self._register.state()
        if state == self._state:
            return
        names = self._names()
        new = {key: name for key, name in names.items() if key not in self._told}
        gone = [name for key, name in self._told.items() if key not in names]
        refused = list[str]()
        if gone:
            refused = self._control.admit(names)
        elif new:
            refused = self._control.register(new)
        self._state, self._told = state, names
        self._tell_refused(refused)
        for name in set(new.values()) - set(refused):
            self._say(f"{name} is a member now; it takes part from the next round on")
        for name in gone:
            self._say(f"{name} is no member any more; nothing more is taken from it")

    def _tell_refused(self, names: list[str]) -> None:
        for name in names:
            self._say(
                f"{name} was struck off before; with the same key it takes part after the server's next start"
            )

    def _names(self) -> dict[str, str]:
        return {member.key: member.name for member in self._register.admitted()}
