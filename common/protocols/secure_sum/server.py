"""The server's side of a secure sum: it passes boxes on, adds masked numbers up, and unmasks the sum.

Masks are taken away by the shares that the clients who stayed give.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray
from fedboard.common.boards.roster import Roster
from fedboard.common.errors import TooFewAnswersError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.secure_sum.advertised import (
    ADVERTISED_BYTES,
    Advertised,
    commitment_to,
    pair_mask,
    self_mask,
    to_bits,
)
from fedboard.common.protocols.secure_sum.confirming import ListedDevices
from fedboard.common.protocols.secure_sum.masking import BOX_BYTES, KeyPair, Mask, apply_masks, recover
from fedboard.common.protocols.secure_sum.messages import (
    NONCE_BYTES,
    STEPS,
    VOUCHED_STEPS,
    Layout,
    MaskingStep,
    Wanted,
    ask,
    read_reply,
    session_of,
    shape_from_client,
    table,
)
from fedboard.common.protocols.secure_sum.neighbours import Graph, Messages
from fedboard.common.protocols.secure_sum.rules import Carried, SumRules
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.common.protocols.sums.residues import Packing


@dataclass(slots=True, kw_only=True, repr=False)
class Unmasking:
    """The shares of one session, and what they give. Holds 17 k bytes for each client that gave shares."""

    graph: Graph
    session: bytes
    there: BoolArray
    """bool, shape (n,): who took part in the masking."""
    stayed: BoolArray
    """bool, shape (n,): whose masked numbers are in the sum."""
    shares: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    """By client: uint8, shape (k, 17), of each of its neighbours one."""

    def unmask(self, total: NDArray[np.uint32]) -> None:
        """Take all masks away, in place.

        For each client that stayed, its self-mask; for each that dropped out, the masks that its neighbours who
        stayed share with it. No client's both seeds are ever asked for.

        Args:
            total: uint32, shape (numbers,): the sum of the masked vectors.

        Raises:
            TooFewAnswersError: the shares of a secret are too few, or too many of them are wrong.
        """
        own = [self._own(client) for client in np.flatnonzero(self.stayed).tolist()]
        apply_masks(total, own)
        for client in np.flatnonzero(self.there & ~self.stayed).tolist():
            apply_masks(total, self._shared(client))

    def _own(self, client: int) -> Mask:
        commitment = self.graph.advertised[client].commitment
        seed = self._seed(client, lambda seed: commitment_to(seed, session=self.session) == commitment)
        return self_mask(seed, session=self.session).reverse

    def _shared(self, client: int) -> Iterator[Mask]:
        """The masks that a client would have added, which would have cancelled those of its neighbours."""
        advertised = self.graph.advertised[client]
        seed = self._seed(
            client, lambda seed: KeyPair.from_seed(seed, session=self.session).public == advertised.mask_key
        )
        pair = KeyPair.from_seed(seed, session=self.session)
        for other in self.graph.joined[client].tolist():
            if self.stayed[other]:
                peer = self.graph.advertised[other]
                yield pair_mask(pair, advertised.identity, peer, session=self.session)

    def _seed(self, client: int, right: Callable[[bytes], bool]) -> bytes:
        shares = {
            number: self.shares[other][place].tobytes()
            for number, (other, place) in enumerate(
                zip(self.graph.joined[client].tolist(), self.graph.places(client).tolist(), strict=True),
                start=1,
            )
            if other in self.shares
        }
        seed = recover(shares, needed=self.graph.around.needed, right=right)
        if seed is None:
            raise TooFewAnswersError(
                f"a mask could not be taken away: {self.graph.around.needed} right shares are needed of "
                f"{len(shares)}; nothing was released",
                given=True,
            )
        return seed


@dataclass(slots=True, kw_only=True, repr=False)
class SecureSumServer:
    """The session.

    Memory: one vector of 4 bytes a number whatever the number of clients, and for each client 96 bytes of keys, 4 k
    of the graph, 50 k of boxes until the inputs are in, 17 k of shares afterwards.
    """

    about: bytes
    clients: Sequence[str]
    rules: SumRules
    carried: Carried
    packing: Packing
    roster: Roster | None = None
    """Who is vouched for; None where nobody is."""
    _nonce: bytes = field(default_factory=lambda: os.urandom(NONCE_BYTES))
    _step: MaskingStep = MaskingStep.KEYS
    _over: bool = False
    _replied: set[str] = field(default_factory=set)
    """Who replied to this step."""
    _keys: dict[str, Advertised] = field(default_factory=dict)
    _told: set[bytes] = field(default_factory=set)
    """Every public key that was advertised."""
    _graph: Graph | None = None
    _number: dict[str, int] = field(init=False)
    """Who is asked in this step, each with a number of its own."""
    _boxes: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    _total: NDArray[np.uint32] = field(init=False)
    _unmasking: Unmasking | None = None
    _sums: DenseSums | None = None
    _listed: ListedDevices | None = None
    """What is kept of them."""
    _confirmations: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    """As many as clients must see."""

    def __post_init__(self) -> None:
        """Everybody is asked, and nothing is added up yet."""
        self._number = {name: number for number, name in enumerate(self.clients)}
        self._total = np.zeros(self.packing.size, dtype=np.uint32)
        if self.roster is not None:
            self._listed = ListedDevices(roster=self.roster, session=self._session)

    @property
    def asks_contributions(self) -> bool:
        """Only where inputs are masked."""
        return self._step is MaskingStep.MASKED and not self._over

    def outgoing(self) -> Mapping[str, bytes]:
        """The step's message to each client that is still there, made when it is looked up."""
        if self._over:
            return {}
        if self._step is MaskingStep.KEYS:
            listed = {} if self.roster is None else {"roster": np.frombuffer(self.roster.content, np.uint8)}
            first = ask(MaskingStep.KEYS, self._session, listed, nonce=self._nonce.hex())
            return dict.fromkeys(self._number, first)
        return Messages(dict(self._number), self._message)

    def take(self, client: str, reply: bytes) -> None:
        """Take a client's reply to this step.

        Raises:
            RefusedError: nobody asked it, it replied before, the reply is malformed or of another session, or its
                keys are of low order or somebody else's.
        """
        if self._over or client not in self._number:
            raise RefusedError(Refusal.UNKNOWN_NODE)
        if client in self._replied:
            raise RefusedError(Refusal.DUPLICATE)
        dtype, shape = shape_from_client(self._step, self._layout)
        self._put(client, read_reply(reply, self._step, self._session, dtype, shape))
        self._replied.add(client)

    def proceed(self) -> bool:
        """Close the step.

        Raises:
            TooFewAnswersError: too few are left, a secret could not be put together, or the sums are larger than
                honest clients can have made them. ``given`` once clients may have masked their inputs.
        """
        match self._step:
            case MaskingStep.KEYS:
                self._join()
            case MaskingStep.SHARES:
                self._gather()
            case MaskingStep.MASKED:
                self._close()
            case MaskingStep.CONFIRM:
                self._confirm()
            case MaskingStep.UNMASK:
                self._finish()
                return False
        steps = STEPS if self.roster is None else VOUCHED_STEPS
        self._step, self._replied = steps[steps.index(self._step) + 1], set()
        return True

    def sums(self) -> ExactSums:
        """The sums over all clients whose masked inputs arrived.

        Raises:
            TooFewAnswersError: the session did not come to its end.
        """
        if self._sums is None:
            raise TooFewAnswersError(
                "the secure sum did not come to its end; nothing was released", given=True
            )
        return self._sums

    @property
    def _session(self) -> bytes:
        return session_of(self.about, self._nonce)

    @property
    def _devices(self) -> int | None:
        return None if self.roster is None else len(self.roster.keys)

    @property
    def _layout(self) -> Layout:
        size = self._graph.around.size if self._graph else 0
        return Layout(size=size, devices=self._devices, numbers=self.packing.size)

    @property
    def _among(self) -> ListedDevices:
        assert self._listed is not None  # else there is nothing to confirm
        return self._listed

    @property
    def _members(self) -> Graph:
        assert self._graph is not None  # since the first step was closed
        return self._graph

    @property
    def _shares(self) -> Unmasking:
        assert self._unmasking is not None  # since the second step was closed
        return self._unmasking

    def _put(self, client: str, content: NDArray[np.uint8]) -> None:
        match self._step:
            case MaskingStep.KEYS:
                self._put_keys(client, content.tobytes())
            case MaskingStep.SHARES:
                self._boxes[self._number[client]] = content.copy()
            case MaskingStep.MASKED:
                self._total += content
            case MaskingStep.CONFIRM:
                self._among.confirm(client, content)
            case MaskingStep.UNMASK:
                self._shares.shares[self._number[client]] = content.copy()

    def _put_keys(self, client: str, content: bytes) -> None:
        keys = Advertised(content[:ADVERTISED_BYTES])
        keys.require_usable()
        public = {keys.mask_key, keys.share_key}
        if len(public) < 2 or public & self._told:
            raise RefusedError(Refusal.DUPLICATE)
        if self._listed is not None:
            self._listed.admit(client, content)
        self._told |= public
        self._keys[client] = keys

    def _message(self, client: str) -> bytes:
        number, graph = self._number[client], self._members
        joined = graph.joined[number]
        if self._step is MaskingStep.SHARES:
            rows = [self._advertised(other) for other in joined.tolist()]
            arrays = {"neighbours": table(rows, self._layout.keys_bytes), **self._sets(members=None)}
            return ask(self._step, self._session, arrays, clients=len(graph.names))
        there, stayed = self._shares.there, self._shares.stayed
        if self._step is MaskingStep.CONFIRM:
            return ask(
                self._step, self._session, self._sets(there=there, stayed=stayed), clients=int(stayed.sum())
            )
        if self._step is MaskingStep.MASKED:
            arrays = {"there": there[joined].astype(np.uint8), "boxes": self._boxes_for(number)}
            return ask(self._step, self._session, arrays, clients=int(there.sum()))
        wanted = np.where(stayed[joined], Wanted.SELF_SEED, Wanted.MASK_SEED) * there[joined]
        arrays = {"wanted": wanted.astype(np.uint8), **self._confirmations}
        return ask(self._step, self._session, arrays, clients=int(stayed.sum()))

    def _advertised(self, number: int) -> bytes:
        """What a client has advertised, with its signature where there are any."""
        if self._listed is None:
            return self._members.advertised[number].content
        return self._listed.advertised[self._members.names[number]]

    def _sets(self, **marked: BoolArray | None) -> dict[str, NDArray[np.uint8]]:
        """Sets of clients as sets of places on the list; None is everybody, and without a list there are none."""
        if self._listed is None:
            return {}
        names = self._members.names
        return {name: to_bits(self._listed.places(names, clients)) for name, clients in marked.items()}

    def _boxes_for(self, number: int) -> NDArray[np.uint8]:
        """What its neighbours that are there put in boxes for a client; zeros for the others."""
        graph, there = self._members, self._shares.there
        boxes = np.zeros((graph.around.size, BOX_BYTES), dtype=np.uint8)
        places = graph.places(number).tolist()
        for row, (other, place) in enumerate(zip(graph.joined[number].tolist(), places, strict=True)):
            if there[other]:
                boxes[row] = self._boxes[other][place]
        return boxes

    def _join(self) -> None:
        """Whoever advertised keys gets neighbours."""
        self._require(len(self._keys), self._fewest, given=False)
        around = self.rules.neighbourhood(len(self._keys), self._devices)
        identities = None if self._listed is None else self._listed.identities
        self._graph = Graph.of(self._session, self._keys, around, identities)
        self._number = {name: number for number, name in enumerate(self._graph.names)}

    def _gather(self) -> None:
        """Whoever sent boxes, and has enough neighbours who did, masks its input."""
        there = self._members.well_joined(self._marked())
        self._require(int(there.sum()), self._fewest, given=False)
        self._keep(there)
        self._unmasking = Unmasking(
            graph=self._members, session=self._session, there=there, stayed=np.zeros_like(there)
        )

    def _close(self) -> None:
        """Whoever sent masked numbers is in the sum; whoever did not has its masks taken off it."""
        stayed = self._marked()
        self._boxes.clear()
        self._require(int(stayed.sum()), self._fewest, given=True)
        self._keep(stayed)
        self._shares.stayed = stayed
        if self._listed is not None:
            self._listed.ask_to_confirm(self._members.names, self._shares.there, stayed)

    def _confirm(self) -> None:
        """Whoever confirmed the set of survivors helps to open its sum, if they are enough."""
        listed, least = self._among, self.rules.quorum(self._among.devices)
        self._require(len(listed.signatures), least, given=True)
        self._keep(self._marked())
        self._confirmations = listed.confirmations(least)

    @property
    def _fewest(self) -> int:
        return self.rules.fewest_of(self._devices)

    def _finish(self) -> None:
        shares, self._over = self._shares, True
        shares.unmask(self._total)
        sums = self.carried.admitted(self.packing, self.packing.unflatten(self._total))
        if sums is None:
            raise TooFewAnswersError(
                "the sums are larger than honest clients can have made them: some client's numbers were not within "
                "the bounds; the round is given up and nothing was released",
                given=True,
            )
        survivors = int(shares.stayed.sum())
        self._sums = DenseSums(
            sums=sums,
            noise_shares=self.carried.noise_shares(survivors),
            noise_ratio=self.carried.noise_ratio,
            residue_bits=self.carried.residue_bits(self.packing),
        )

    def _marked(self) -> BoolArray:
        return np.array([name in self._replied for name in self._members.names], dtype=np.bool_)

    def _keep(self, there: BoolArray) -> None:
        """Ask nobody else any more."""
        names = self._members.names
        self._number = {names[number]: number for number in np.flatnonzero(there).tolist()}

    def _require(self, count: int, least: int, *, given: bool) -> None:
        if count < least:
            self._over = True
            raise TooFewAnswersError(
                f"{count} clients are left in step '{self._step.name.lower()}' of a secure sum and {least} or more "
                "are needed; nothing was released",
                given=given,
            )
