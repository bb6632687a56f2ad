"""A client's side of a secure sum: it says each thing once, and of no neighbour both secrets."""

import hashlib
import os
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.messages.frame import Frame
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import Given
from fedboard.common.protocols.secure_sum.confirming import VouchedSession
from fedboard.common.protocols.secure_sum.masking import (
    BOX_BYTES,
    NO_SHARE,
    SHARE_BYTES,
    apply_masks,
    close_box,
    open_box,
    split,
)
from fedboard.common.protocols.secure_sum.members import (
    ADVERTISED_BYTES,
    Advertised,
    Secrets,
    pair_mask,
    self_mask,
)
from fedboard.common.protocols.secure_sum.messages import (
    STEPS,
    VOUCHED_STEPS,
    Layout,
    MaskingStep,
    Wanted,
    read_count,
    read_session,
    reply,
    shapes_to_client,
    step_of,
    table,
)
from fedboard.common.protocols.secure_sum.rules import Carried, Neighbourhood, SumRules
from fedboard.common.protocols.sessions import Voucher


class Answered(msgspec.Struct, frozen=True):
    """A step that is over."""

    question: bytes
    """SHA-256 of the message."""
    reply: bytes


class Memory(msgspec.Struct):
    """All that a session is, in steps; secrets inside."""

    secrets: Secrets
    answered: list[Answered] = msgspec.field(default_factory=list)
    session: bytes = b""
    clients: int = 0
    """How many advertised keys, as the server says."""
    neighbours: list[bytes] = msgspec.field(default_factory=list)
    """What they advertised, sorted by identity."""
    held: list[tuple[bytes, bytes]] = msgspec.field(default_factory=list)
    """A neighbour's shares of its two seeds; ``NO_SHARE`` where its box could not be opened."""
    there: list[bool] = msgspec.field(default_factory=list)
    """Which neighbours are masked with."""
    roster: bytes = b""
    """The list of devices; empty where clients are not vouched for, as all that follows."""
    places: list[int] = msgspec.field(default_factory=list)
    """Of the neighbours, on the list."""
    members: bytes = b""
    """The set of all who take part, as the server said."""
    confirmed: tuple[bytes, bytes] = (b"", b"")
    """The sets of those masked with and of survivors, as this client has signed them."""


@dataclass(slots=True, kw_only=True, repr=False)
class SecureSumClient:
    """The session.

    Guarantee: the masked numbers are sent once, and look uniform to whoever lacks the client's own mask or those
    with its honest neighbours; of each neighbour it gives away at most one share, of one kind, and nothing of its
    own secrets; and not where fewer clients stayed than the rules ask, or fewer of its neighbours than are needed
    to put a secret together. How many stayed is the server's word, unless clients are vouched for: then more than
    half of all devices on the list have signed the one set of survivors that this client was told (``quorum``).

    Not guaranteed: anything where one ``to_bytes`` is resumed twice and both are shown different contributions. A
    session that was forked refuses to go on.
    """

    about: bytes
    noise: NoiseSource
    rules: SumRules
    carried: Carried
    voucher: Voucher | None = None
    """Of the device; it answers only where its authority vouches for clients."""
    _memory: Memory = field(default_factory=lambda: Memory(secrets=Secrets.fresh()))
    _process: int = field(default_factory=os.getpid)
    _seen: VouchedSession | None = None
    """The session's list, once it was read."""

    def answer(self, message: bytes, given: Given | None) -> bytes:
        """The reply to one step; the same message gets the same bytes.

        Raises:
            PrivacyError: a row breaks its bound, or the session was forked; nothing is sent.
            RefusedError: malformed, out of turn, of another session, or of too few clients.
        """
        if os.getpid() != self._process:
            raise PrivacyError(
                "a session of a secure sum cannot go on in a forked process: its masks might serve twice"
            )
        step, frame = step_of(message)
        question, answered = hashlib.sha256(message).digest(), self._memory.answered
        steps = VOUCHED_STEPS if self.rules.vouched_by else STEPS
        turn = steps.index(step) if step in steps else len(steps)
        if turn < len(answered) and answered[turn].question == question:
            return answered[turn].reply
        if turn != len(answered):
            raise RefusedError(Refusal.OUT_OF_TURN)
        content = self._reply(step, frame, given)
        answered.append(Answered(question=question, reply=content))
        return content

    def to_bytes(self) -> bytes:
        """The state, with its secrets: for memory, never for a disk."""
        return msgspec.msgpack.encode(self._memory)

    def restore(self, state: bytes) -> "SecureSumClient":
        """Take over a state.

        Raises:
            InputError: it is none.
        """
        try:
            self._memory = msgspec.msgpack.decode(state, type=Memory)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise InputError("this is not the state of a secure sum's client") from None
        return self

    def _reply(self, step: MaskingStep, frame: Frame, given: Given | None) -> bytes:
        match step:
            case MaskingStep.KEYS:
                return self._keys(frame)
            case MaskingStep.SHARES:
                return self._shares(frame)
            case MaskingStep.MASKED:
                return self._masked(frame, given)
            case MaskingStep.CONFIRM:
                return self._confirm(frame)
            case MaskingStep.UNMASK:
                return self._unmask(frame)

    def _keys(self, frame: Frame) -> bytes:
        memory = self._memory
        session, roster = read_session(frame, self.about, vouched=bool(self.rules.vouched_by))
        memory.session, memory.roster, self._seen = session, roster, None
        keys, vouched = memory.secrets.advertised(session), self._vouched()
        content = keys.content if vouched is None else vouched.signed(keys)
        return reply(MaskingStep.KEYS, memory.session, np.frombuffer(content, dtype=np.uint8))

    def _shares(self, frame: Frame) -> bytes:
        memory = self._memory
        clients, vouched = self._count(frame), self._vouched()
        around = self._around(clients)
        rows, *members = frame.arrays_as(shapes_to_client(MaskingStep.SHARES, self._layout(around.size)))
        if vouched is not None:
            memory.places = vouched.places_of(rows, members[0], clients=clients)
            memory.members = members[0].tobytes()
        neighbours = [Advertised(row[:ADVERTISED_BYTES].tobytes()) for row in rows]
        self._require_neighbours(neighbours)
        boxes = self._boxes(neighbours, around)
        memory.clients, memory.neighbours = clients, [neighbour.content for neighbour in neighbours]
        return reply(MaskingStep.SHARES, memory.session, boxes)

    def _require_neighbours(self, neighbours: list[Advertised]) -> None:
        """In order, each once, and not the client itself; that also fixes the numbers of the shares."""
        names = [neighbour.identity for neighbour in neighbours]
        if names != sorted(set(names)) or self._identity in names:
            raise RefusedError(Refusal.MALFORMED)

    def _boxes(self, neighbours: list[Advertised], around: Neighbourhood) -> NDArray[np.uint8]:
        """A box with one share of each seed for every neighbour."""
        secrets, session, own = self._memory.secrets, self._memory.session, self._identity
        of_self = split(secrets.self_seed, needed=around.needed, count=around.size)
        of_mask = split(secrets.mask_seed, needed=around.needed, count=around.size)
        pair = secrets.share_pair()
        boxes = [
            close_box(pair, peer.share_key, shares, session=session, parties=own + peer.identity)
            for peer, shares in zip(neighbours, zip(of_self, of_mask, strict=True), strict=True)
        ]
        return table(boxes, BOX_BYTES)

    def _masked(self, frame: Frame, given: Given | None) -> bytes:
        if given is None:
            raise RefusedError(Refusal.MALFORMED)
        memory = self._memory
        clients, size = self._count(frame), len(memory.neighbours)
        flags, boxes = frame.arrays_as(shapes_to_client(MaskingStep.MASKED, self._layout(size)))
        if flags.max(initial=0) > 1:
            raise RefusedError(Refusal.MALFORMED)
        there = [bool(flag) for flag in flags]
        self._require_enough(sum(there), clients)
        held = self._opened(boxes, there)
        vector = self.carried.numbers(given, self.noise)
        self._mask(vector, there)
        memory.there, memory.held = there, held
        return reply(MaskingStep.MASKED, memory.session, vector)

    def _opened(self, boxes: NDArray[np.uint8], there: list[bool]) -> list[tuple[bytes, bytes]]:
        memory, own, pair = self._memory, self._identity, self._memory.secrets.share_pair()
        held = []
        for peer, box, present in zip(map(Advertised, memory.neighbours), boxes, there, strict=True):
            shares = (NO_SHARE, NO_SHARE)
            if present:
                parties = peer.identity + own
                shares = open_box(
                    pair, peer.share_key, box.tobytes(), session=memory.session, parties=parties
                )
            held.append(shares)
        return held

    def _mask(self, vector: NDArray[np.uint32], there: list[bool]) -> None:
        secrets, session, own = self._memory.secrets, self._memory.session, self._identity
        pair = secrets.mask_pair(session)
        peers = [
            Advertised(content)
            for content, present in zip(self._memory.neighbours, there, strict=True)
            if present
        ]
        masks = [pair_mask(pair, own, peer, session=session) for peer in peers]
        apply_masks(vector, [self_mask(secrets.self_seed, session=session), *masks])

    def _confirm(self, frame: Frame) -> bytes:
        """Sign the one set of survivors that is to be opened, and the graph; after that no other one is."""
        memory, clients, vouched = self._memory, self._count(frame), self._vouched()
        assert vouched is not None  # else this step is out of turn
        there, stayed = frame.arrays_as(shapes_to_client(MaskingStep.CONFIRM, self._layout(0)))
        told = vouched.set_of(memory.members, there, stayed)
        self.rules.require_sum_over(int(told.stayed.sum()))
        if int(told.stayed.sum()) != clients:
            raise RefusedError(Refusal.MALFORMED)
        if told.there[memory.places].tolist() != memory.there:
            raise RefusedError(Refusal.NOT_CONFIRMED)
        self._require_enough(int(told.stayed[memory.places].sum()), clients)
        signature = vouched.voucher.identity.sign(told.statement)
        memory.confirmed = (there.tobytes(), stayed.tobytes())
        return reply(MaskingStep.CONFIRM, memory.session, np.frombuffer(signature, dtype=np.uint8))

    def _wanted(self, frame: Frame) -> NDArray[np.uint8]:
        """Which share of each neighbour is asked for; where clients are vouched for, of the confirmed set."""
        memory, vouched = self._memory, self._vouched()
        shapes = shapes_to_client(MaskingStep.UNMASK, self._layout(len(memory.neighbours)))
        if vouched is None:
            return frame.arrays_as(shapes)[0]
        wanted, signers, signatures = frame.arrays_as(shapes)
        there, stayed = (np.frombuffer(bits, dtype=np.uint8) for bits in memory.confirmed)
        told = vouched.set_of(memory.members, there, stayed)
        vouched.require_confirmed(told, signers, signatures)
        survivors = np.where(told.stayed[memory.places], Wanted.SELF_SEED, Wanted.MASK_SEED)
        if not np.array_equal(wanted, survivors * told.there[memory.places]):
            raise RefusedError(Refusal.NOT_CONFIRMED)
        return wanted

    def _unmask(self, frame: Frame) -> bytes:
        memory = self._memory
        clients = self._count(frame)
        wanted = self._wanted(frame)
        if wanted.max(initial=0) > max(Wanted) or [bool(kind) for kind in wanted] != memory.there:
            raise RefusedError(Refusal.MALFORMED)
        self._require_enough(int(np.count_nonzero(wanted == Wanted.SELF_SEED)), clients)
        shares = [
            {Wanted.NOTHING: NO_SHARE, Wanted.SELF_SEED: held[0], Wanted.MASK_SEED: held[1]}[Wanted(kind)]
            for kind, held in zip(wanted.tolist(), memory.held, strict=True)
        ]
        return reply(MaskingStep.UNMASK, memory.session, table(shares, SHARE_BYTES))

    def _count(self, frame: Frame) -> int:
        """How many clients the server says are left: never fewer than the rules ask, never more than before."""
        memory = self._memory
        clients = read_count(frame, memory.session)
        if clients < self.rules.fewest_of(self._devices):
            raise RefusedError(Refusal.TOO_FEW)
        if memory.clients and clients > memory.clients:
            raise RefusedError(Refusal.MALFORMED)
        return clients

    def _require_enough(self, neighbours: int, clients: int) -> None:
        """Enough neighbours to put a secret together, and as many as there are clients where all are joined."""
        memory = self._memory
        if neighbours < self._around(memory.clients).needed:
            raise RefusedError(Refusal.TOO_FEW)
        everybody = len(memory.neighbours) == memory.clients - 1
        if neighbours > clients - 1 or (everybody and neighbours != clients - 1):
            raise RefusedError(Refusal.MALFORMED)

    def _vouched(self) -> VouchedSession | None:
        """The session among the clients of a list; None where nobody is vouched for.

        Raises:
            RefusedError: ``other-roster``: not whom this device believes, also where it believes somebody and the
                server says nobody.
        """
        memory = self._memory
        if self.voucher is None and not self.rules.vouched_by:
            return None
        if self._seen is None:
            self._seen = VouchedSession.begin(self.voucher, self.rules, memory.session, memory.roster)
        return self._seen

    @property
    def _devices(self) -> int | None:
        vouched = self._vouched()
        return None if vouched is None else vouched.devices

    def _around(self, clients: int) -> Neighbourhood:
        try:
            return self.rules.neighbourhood(clients, self._devices)
        except InputError:
            raise RefusedError(Refusal.BAD_PROTOCOL) from None

    def _layout(self, size: int) -> Layout:
        return Layout(size=size, devices=self._devices)

    @property
    def _identity(self) -> bytes:
        return self._memory.secrets.advertised(self._memory.session).identity
