"""Keeping Flower's own list of nodes to the register of devices, while the server runs."""

from collections.abc import Callable, Mapping

from fedboard.server.fleet.members.records import Member
from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.control import Control


class Admission:
    """Tells the SuperLink who is admitted, at its start and whenever the register has changed.

    The door and the round loop read the register themselves: who is removed is out before the SuperLink knows it,
    and who joined is asked once it does.
    """

    def __init__(
        self, control: Control, state: StateFolder, *, invited: bool = True, say: Callable[[str], None]
    ) -> None:
        """Make ready.

        Args:
            control: of the SuperLink.
            state: has the register.
            invited: whether devices that joined come by Flower; else it is not told of them.
            say: takes sentences for the operator.
        """
        self._control, self._register, self._say = control, Register(state.members), say
        self._invited = invited
        self._told: dict[str, Member] = {}
        self._state: tuple[int, int] | None = None

    def begin(self) -> None:
        """After a start of the SuperLink: register everybody who comes by Flower, and nobody else."""
        state, members = self._register.state(), self._members()
        self._tell_refused(self._control.admit(self._by_flower(members)))
        self._state, self._told = state, members

    def look(self) -> None:
        """Tell what has changed since, and say who came and who is gone."""
        state = self._register.state()
        if state == self._state:
            return
        members = self._members()
        new = {key: one for key, one in members.items() if key not in self._told}
        gone = {key: one for key, one in self._told.items() if key not in members}
        refused = list[str]()
        if self._by_flower(gone):
            refused = self._control.admit(self._by_flower(members))
        elif by_flower := self._by_flower(new):
            refused = self._control.register(by_flower)
        self._state, self._told = state, members
        self._tell_refused(refused)
        for name in {one.name for one in new.values()} - set(refused):
            self._say(f"{name} is a member now; it takes part from the next round on")
        for one in gone.values():
            self._say(f"{one.name} is no member any more; nothing more is taken from it")

    def _tell_refused(self, names: list[str]) -> None:
        for name in names:
            self._say(
                f"{name} was struck off before; with the same key it takes part after the server's next start"
            )

    def _members(self) -> dict[str, Member]:
        return {member.key: member for member in self._register.admitted()}

    def _by_flower(self, members: Mapping[str, Member]) -> dict[str, str]:
        """Names by public key."""
        return {key: one.name for key, one in members.items() if self._invited or not one.invited}
