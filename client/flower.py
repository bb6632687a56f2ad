"""Answering inside a ClientApp of one's own: the people of one partition, as a Flower app has loaded them.

For simulations and trials. Somebody's own device runs ``fedboard client``, which answers with code that is
installed there, by a policy, within a limit, and books what it gives; a Flower node runs what a run brings.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from flwr.app import ConfigRecord, Context, Message

from fedboard.client.participation.rounds import Asker, OpenGate, respond
from fedboard.client.recommending.recommend import rating_range_of
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.messages.flower_parts import SERVER, frame_of, record_of
from fedboard.common.messages.question import Question, refusal
from fedboard.common.messages.refusals import Refusal
from fedboard.common.messages.signing import PinnedServer

People = Sequence[Mapping[str, float]]
"""One mapping of item id to rating a user. Private."""
_PINNED = "fedboard.pinned"
_ROWS_OF_A_PARTITION = 1 << 24
_log = logging.getLogger(__name__)


def answer(message: Message, context: Context, people: People, *, kernels: str = "numpy") -> Message:
    """Answer a round of ``fedboard.flower.BillboardStrategy``.

    Guarantee: never raises, since Flower would send the error's text to the server. What is sent is sealed to the
    server's key for this round, and each person's part is within every bound of the releases. A person with a
    rating that cannot be used gives what somebody without ratings gives; the log of this node says so.

    Args:
        message: of type ``train``.
        context: of the node; the key of the server that asked first is kept in it, and no other is answered.
        people: all of this node, the same in each round. Private.
        kernels: which kernels compute: ``numpy``, ``plain`` or ``blocked``.

    Returns:
        The reply. Without ``num-examples`` or any other metric: how many ratings somebody has is private.
    """
    question, server = frame_of(message.content), _pinned(message, context)
    if question is None or server is None:
        return Message(record_of(refusal(Refusal.MALFORMED)), reply_to=message)
    number = context.node_config.get("partition-id", 0)
    source = _Partition(people, int(number) * _ROWS_OF_A_PARTITION if isinstance(number, int) else 0)
    gate = _PartitionGate(Asker(server=server, largest=Question.MAX_BYTES, largest_answer=Question.MAX_BYTES))
    sent = respond(question, source=source, gate=gate, backend=kernels)
    return Message(record_of(sent), reply_to=message)


def _pinned(message: Message, context: Context) -> PinnedServer | None:
    """The server that asked this node first."""
    stated, kept = message.content.get(SERVER), context.state.get(_PINNED)
    held = kept if isinstance(kept, ConfigRecord) else stated
    try:
        found = PinnedServer.from_hex(str(held["key"])) if isinstance(held, ConfigRecord) else None
    except (KeyError, ValueError):
        return None
    if found is not None:
        context.state[_PINNED] = ConfigRecord({"key": found.hex})
    return found


@dataclass(frozen=True, slots=True)
class _PartitionGate(OpenGate):
    asker: Asker

    def failed(self, error: Exception) -> None:
        """Say so here and nowhere else; the rows count as empty."""
        _log.error("ratings of this node could not be used (%s)", type(error).__name__)


@dataclass(frozen=True, slots=True)
class _Partition:
    people: People
    first_row: int

    @property
    def n_users(self) -> int:
        return len(self.people)

    def cohort(self, board: Board) -> Cohort:
        return _cohort(self.people, board, self.first_row)


def _cohort(people: People, board: Board, first_row: int) -> Cohort:
    """The ratings in the board's catalogue; a person with one that cannot be used has none."""
    number = {item: place for place, item in enumerate(board.catalogue.item_ids)}
    low, high = rating_range_of(board) or (-math.inf, math.inf)
    users: list[int] = []
    items: list[int] = []
    values: list[float] = []
    unusable = 0
    for user, own in enumerate(people):
        if not all(low <= value <= high for value in own.values()):
            unusable += 1
            continue
        rated = [(number[item], value) for item, value in own.items() if item in number]
        users += [user] * len(rated)
        items += [item for item, _ in rated]
        values += [value for _, value in rated]
    if unusable:
        _log.error("%d people of this node have ratings off the public range; they count as empty", unusable)
    found = cohort_from_triples(
        np.array(users, dtype=np.int32),
        np.array(items, dtype=np.int32),
        np.array(values, dtype=np.float32),
        n_users=len(people),
        n_items=len(number),
    )
    return replace(found, first_row=first_row)
