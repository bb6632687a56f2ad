"""The server's side of a secure sum: it passes boxes on, adds masked numbers up, and unmasks the sum.

Masks are taken away by the shares that the clients who stayed give.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray
from fedboard.common.boards.roster import Roster
from fedboard.common.errors import TooFewAnswersError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.secure_sum.confirming import ListedDevices
from fedboard.common.protocols.secure_sum.masking import BOX_BYTES, KeyPair, Mask, apply_masks, recover
from fedboard.common.protocols.secure_sum.members import (
    ADVERTISED_BYTES,
    Advertised,
    Graph,
    commitment_to,
    pair_mask,
    self_mask,
)
from fedboard.common.protocols.secure_sum.messages import (
    NONCE_BYTES,
    Layout,
    MaskingStep,
    Wanted,
    ask,
    read_reply,
    session_of,
    shape_from_client,
    table,
)
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


@dataclass(frozen=True, slots=True)
class Messages(Mapping[str, bytes]):
    """One message for each client, made when it is asked for, so that they never exist all at once."""

    numbers: Mapping[str, int]
    make: Callable[[int], bytes]
    """To the client of a number."""

    def __getitem__(self, name: str) -> bytes:
        """The message to one client."""
        return self.make(self.numbers[name])

    def __iter__(self) -> Iterator[str]:
        """Who is asked."""
        return iter(self.numbers)

    def __len__(self) -> int:
        """How many are asked."""
        return len(self.numbers)


@dataclass(slots=True, kw_only=True)
class _Step:
    """One step that is open."""

    kind: MaskingStep
    messages: Messages
    put: Callable[[str, NDArray[Any]], None]
    """Keeps a client's reply, or refuses it and changes nothing."""
    replied: set[str] = field(default_factory=set)


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
    _course: Iterator[_Step] = field(init=False)
    _step: _Step | None = field(init=False)
    """None after the last one, and once the session is given up."""
    _keys: dict[str, Advertised] = field(default_factory=dict)
    _told: set[bytes] = field(default_factory=set)
    """Every public key that was advertised."""
    _graph: Graph | None = None
    """Since the first step was closed."""
    _boxes: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    _total: NDArray[np.uint32] = field(init=False)
    _listed: ListedDevices | None = None
    """What is kept of those who are vouched for."""
    _sums: DenseSums | None = None

    def __post_init__(self) -> None:
        """Open the first step; nothing is added up yet."""
        self._total = np.zeros(self.packing.size, dtype=np.uint32)
        if self.roster is not None:
            self._listed = ListedDevices(roster=self.roster, session=self._session)
        self._course = self._steps()
        self._step = next(self._course)

    @property
    def asks_contributions(self) -> bool:
        """Only where inputs are masked."""
        return self._step is not None and self._step.kind is MaskingStep.MASKED

    def outgoing(self) -> Mapping[str, bytes]:
        """The step's message to each client that is still there, made when it is looked up."""
        return {} if self._step is None else self._step.messages

    def take(self, client: str, reply: bytes) -> None:
        """Take a client's reply to this step.

        Raises:
            RefusedError: nobody asked it, it replied before, the reply is malformed or of another session, or its
                keys are of low order or somebody else's.
        """
        step = self._step
        if step is None or client not in step.messages.numbers:
            raise RefusedError(Refusal.UNKNOWN_NODE)
        if client in step.replied:
            raise RefusedError(Refusal.DUPLICATE)
        dtype, shape = shape_from_client(step.kind, self._layout)
        step.put(client, read_reply(reply, step.kind, self._session, dtype, shape))
        step.replied.add(client)

    def proceed(self) -> bool:
        """Close the step.

        Raises:
            TooFewAnswersError: too few are left, a secret could not be put together, or the sums are larger than
                honest clients can have made them. ``given`` once clients may have masked their inputs.
        """
        self._step = None  # whatever goes wrong now, nobody is asked and nothing is taken any more
        self._step = next(self._course, None)
        return self._step is not None

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

    def _steps(self) -> Iterator[_Step]:
        """The session in its order: each step is closed when the next one is asked for."""
        listed, numbers = self._listed, {name: number for number, name in enumerate(self.clients)}
        content = {} if self.roster is None else {"roster": np.frombuffer(self.roster.content, np.uint8)}
        first = ask(MaskingStep.KEYS, self._session, content, nonce=self._nonce.hex())
        step = _Step(
            kind=MaskingStep.KEYS, messages=Messages(numbers, lambda number: first), put=self._put_keys
        )
        yield step

        self._require(step, len(self._keys), self._fewest, given=False)
        around = self.rules.neighbourhood(len(self._keys), self._devices)
        graph = Graph.of(self._session, self._keys, around, None if listed is None else listed.identities)
        self._graph, numbers = graph, {name: number for number, name in enumerate(graph.names)}

        def asked(who: BoolArray, message: Callable[[int], bytes]) -> Messages:
            return Messages({name: number for name, number in numbers.items() if who[number]}, message)

        def marked(step: _Step) -> BoolArray:
            return np.array([name in step.replied for name in graph.names], dtype=np.bool_)

        def kept_in(found: dict[int, NDArray[np.uint8]]) -> Callable[[str, NDArray[Any]], None]:
            return lambda client, content: found.__setitem__(numbers[client], content.copy())

        everybody = np.ones(len(graph.names), dtype=np.bool_)
        neighbours = asked(everybody, lambda number: self._neighbours_message(graph, number))
        step = _Step(kind=MaskingStep.SHARES, messages=neighbours, put=kept_in(self._boxes))
        yield step

        there = graph.well_joined(marked(step))  # who sent boxes, and has enough neighbours who did
        self._require(step, int(there.sum()), self._fewest, given=False)
        boxes = asked(there, lambda number: self._boxes_message(graph, number, there))
        step = _Step(kind=MaskingStep.MASKED, messages=boxes, put=self._add)
        yield step

        stayed = marked(step)  # they are in the sum; of the others the masks are taken off it
        self._boxes.clear()
        self._require(step, int(stayed.sum()), self._fewest, given=True)
        unmasking = Unmasking(graph=graph, session=self._session, there=there, stayed=stayed)
        opening, confirmations = stayed, dict[str, NDArray[np.uint8]]()
        if listed is not None:
            listed.ask_to_confirm(graph.names, there, stayed)
            sets = listed.sets(graph.names, there=there, stayed=stayed)
            one = ask(MaskingStep.CONFIRM, self._session, sets, clients=int(stayed.sum()))
            step = _Step(
                kind=MaskingStep.CONFIRM, messages=asked(stayed, lambda number: one), put=listed.confirm
            )
            yield step

            quorum = self.rules.quorum(listed.devices)
            self._require(step, len(listed.signatures), quorum, given=True)
            opening, confirmations = marked(step), listed.confirmations(quorum)
        wanted = asked(opening, lambda number: self._wanted_message(unmasking, number, confirmations))
        yield _Step(kind=MaskingStep.UNMASK, messages=wanted, put=kept_in(unmasking.shares))

        unmasking.unmask(self._total)
        self._sums = self._admitted(int(stayed.sum()))

    def _put_keys(self, client: str, content: NDArray[np.uint8]) -> None:
        keys = Advertised(content[:ADVERTISED_BYTES].tobytes())
        keys.require_usable()
        public = {keys.mask_key, keys.share_key}
        if len(public) < 2 or public & self._told:
            raise RefusedError(Refusal.DUPLICATE)
        if self._listed is not None:
            self._listed.admit(client, content.tobytes())
        self._told |= public
        self._keys[client] = keys

    def _add(self, client: str, content: NDArray[np.uint32]) -> None:
        self._total += content

    def _neighbours_message(self, graph: Graph, number: int) -> bytes:
        """What a client's neighbours have advertised, with their signatures where there are any."""
        joined, listed = graph.joined[number].tolist(), self._listed
        if listed is None:
            rows, members = [graph.advertised[other].content for other in joined], {}
        else:
            rows = [listed.advertised[graph.names[other]] for other in joined]
            members = listed.sets(graph.names, members=None)
        arrays = {"neighbours": table(rows, self._layout.keys_bytes), **members}
        return ask(MaskingStep.SHARES, self._session, arrays, clients=len(graph.names))

    def _boxes_message(self, graph: Graph, number: int, there: BoolArray) -> bytes:
        """What its neighbours that are there put in boxes for a client; zeros for the others."""
        joined = graph.joined[number]
        boxes = np.zeros((graph.around.size, BOX_BYTES), dtype=np.uint8)
        for row, (other, place) in enumerate(
            zip(joined.tolist(), graph.places(number).tolist(), strict=True)
        ):
            if there[other]:
                boxes[row] = self._boxes[other][place]
        arrays = {"there": there[joined].astype(np.uint8), "boxes": boxes}
        return ask(MaskingStep.MASKED, self._session, arrays, clients=int(there.sum()))

    def _wanted_message(
        self, unmasking: Unmasking, number: int, confirmations: Mapping[str, NDArray[np.uint8]]
    ) -> bytes:
        """Which share of each neighbour is asked for: of nobody both kinds."""
        joined, stayed = unmasking.graph.joined[number], unmasking.stayed
        wanted = np.where(stayed[joined], Wanted.SELF_SEED, Wanted.MASK_SEED) * unmasking.there[joined]
        arrays = {"wanted": wanted.astype(np.uint8), **confirmations}
        return ask(MaskingStep.UNMASK, self._session, arrays, clients=int(stayed.sum()))

    def _admitted(self, survivors: int) -> DenseSums:
        sums = self.carried.admitted(self.packing, self.packing.unflatten(self._total))
        if sums is None:
            raise TooFewAnswersError(
                "the sums are larger than honest clients can have made them: some client's numbers were not within "
                "the bounds; the round is given up and nothing was released",
                given=True,
            )
        return DenseSums(
            sums=sums,
            noise_shares=self.carried.noise_shares(survivors),
            noise_ratio=self.carried.noise_ratio,
            residue_bits=self.carried.residue_bits(self.packing),
        )

    @property
    def _session(self) -> bytes:
        return session_of(self.about, self._nonce)

    @property
    def _devices(self) -> int | None:
        return None if self.roster is None else len(self.roster.keys)

    @property
    def _fewest(self) -> int:
        return self.rules.fewest_of(self._devices)

    @property
    def _layout(self) -> Layout:
        size = self._graph.around.size if self._graph else 0
        return Layout(size=size, devices=self._devices, numbers=self.packing.size)

    def _require(self, step: _Step, count: int, least: int, *, given: bool) -> None:
        if count < least:
            raise TooFewAnswersError(
                f"{count} clients are left in step '{step.kind.name.lower()}' of a secure sum and {least} or more "
                "are needed; nothing was released",
                given=given,
            )
