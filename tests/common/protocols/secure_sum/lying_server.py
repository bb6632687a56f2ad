"""A server that follows a masked sum until the inputs are in, and then tells each client another set of survivors.

It wants the sum over a few clients alone. For that it needs enough shares of the self-mask seeds of these, and of
the mask seeds of all their other neighbours. Each client believes a few dropouts, as many as the rules allow, so
the lies are spread: who is told that whom dropped out is a maximum flow.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow

from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.secure_sum.members import Graph, to_bits
from fedboard.common.protocols.secure_sum.messages import MaskingStep, Wanted, ask
from fedboard.common.protocols.secure_sum.server import Unmasking
from tests.common.protocols.secure_sum.secure_sums import Summing, content_of

_UNUSABLE = 255


@dataclass
class LyingServer:
    """The attack on one session, whose inputs are in."""

    summing: Summing
    target: set[int]
    """Numbers of the clients whose sum it wants."""
    told: dict[int, set[int]] = field(default_factory=dict)
    """Of each client, which of its neighbours it is told to have dropped out."""
    signatures: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    """Confirmations that it got, by client."""
    refusals: list[Refusal] = field(default_factory=list)
    answered: int = 0
    """Clients that gave shares."""

    @property
    def graph(self) -> Graph:
        assert self.summing.server._graph is not None
        return self.summing.server._graph

    def name(self, number: int) -> str:
        return self.graph.names[number]

    def run(self) -> NDArray[np.int64] | None:
        """The sum over the target, or None where it cannot be opened."""
        self.told = self._lies()
        if self.summing.server.roster is not None:
            self._have_confirmed()
        return self._opened(self._shares())

    def _lies(self) -> dict[int, set[int]]:
        """Enough witnesses for each dropout, few enough for each witness."""
        around, rules, joined = self.graph.around, self.summing.protocol.rules, self.graph.joined
        everybody = len(joined)
        whole = around.size == everybody - 1
        most = around.size - (max(around.needed, rules.fewest - 1) if whole else around.needed)
        most = min(most, everybody - rules.fewest) if self.summing.server.roster is not None else most
        gone = sorted({int(x) for t in self.target for x in joined[t]} - self.target)
        source, sink = 2 * everybody, 2 * everybody + 1
        edges = {(source, j): most for j in range(everybody)}
        edges |= {(everybody + x, sink): around.needed for x in gone}
        edges |= {(int(j), everybody + x): 1 for x in gone for j in joined[x]}
        rows, columns = zip(*edges, strict=True)
        network = csr_matrix(
            (list(edges.values()), (rows, columns)), shape=(sink + 1, sink + 1), dtype=np.int32
        )
        flow = maximum_flow(network, source, sink)
        assert flow.flow_value == around.needed * len(gone), "this target cannot be cut off by lies"
        found = flow.flow.tocoo()
        told: dict[int, set[int]] = {j: set() for j in range(everybody)}
        for j, x, units in zip(found.row, found.col, found.data, strict=True):
            if units > 0 and j < everybody <= x < 2 * everybody:
                told[int(j)].add(int(x) - everybody)
        return told

    def sets(self, j: int) -> dict[str, NDArray[np.uint8]]:
        """What a client is told of everybody, such that it fits what it is told of its neighbours."""
        server = self.summing.server
        everybody = np.ones(len(self.graph.names), dtype=np.bool_)
        stayed = everybody.copy()
        stayed[sorted(self.told[j])] = False
        return {
            "there": to_bits(server._listed.places(self.graph.names, everybody)),
            "stayed": to_bits(server._listed.places(self.graph.names, stayed)),
        }

    def _have_confirmed(self) -> None:
        for j in range(len(self.graph.names)):
            message = ask(
                MaskingStep.CONFIRM,
                self.session,
                self.sets(j),
                clients=len(self.graph.names) - len(self.told[j]),
            )
            reply = self._asked(j, message)
            if reply is not None:
                self.signatures[j] = content_of(reply)

    @property
    def session(self) -> bytes:
        return self.summing.server._session

    def _asked(self, j: int, message: bytes) -> bytes | None:
        try:
            return self.summing.clients[self.name(j)].answer(message, None)
        except RefusedError as refused:
            self.refusals.append(refused.code)
            return None

    def confirmations(self, signers: Iterable[int]) -> dict[str, NDArray[np.uint8]]:
        """All signatures that it has, whatever they are of."""
        server = self.summing.server
        if server.roster is None:
            return {}
        marked = np.zeros(len(self.graph.names), dtype=np.bool_)
        marked[sorted(signers)] = True
        ordered = sorted(signers, key=lambda j: server._listed.place[self.name(j)])
        rows = [self.signatures[j] for j in ordered]
        signatures = np.stack(rows) if rows else np.zeros((0, 64), dtype=np.uint8)
        return {
            "signers": to_bits(server._listed.places(self.graph.names, marked)),
            "signatures": signatures,
        }

    def _shares(self) -> dict[int, NDArray[np.uint8]]:
        """Of each client that answers, the shares of the kind that is needed."""
        found, everybody = {}, len(self.graph.names)
        for j in range(everybody):
            joined = self.graph.joined[j].tolist()
            kinds = [Wanted.MASK_SEED if x in self.told[j] else Wanted.SELF_SEED for x in joined]
            arrays = {"wanted": np.array(kinds, dtype=np.uint8)}
            signers = [s for s in self.signatures if s not in self.told[j]]
            message = ask(
                MaskingStep.UNMASK,
                self.session,
                {**arrays, **self.confirmations(signers)},
                clients=everybody - len(self.told[j]),
            )
            reply = self._asked(j, message)
            if reply is None:
                continue
            self.answered += 1
            shares = content_of(reply).copy()
            for place, x in enumerate(joined):
                if (x in self.told[j]) == (x in self.target):
                    shares[place] = _UNUSABLE
            found[j] = shares
        return found

    def _opened(self, shares: dict[int, NDArray[np.uint8]]) -> NDArray[np.int64] | None:
        stayed = np.zeros(len(self.graph.names), dtype=np.bool_)
        stayed[sorted(self.target)] = True
        there = stayed.copy()
        for t in self.target:
            there[self.graph.joined[t]] = True
        masked = self.summing.replies[MaskingStep.MASKED]
        total = np.sum([content_of(masked[self.name(t)]) for t in self.target], axis=0, dtype=np.uint32)
        removing = Unmasking(
            graph=self.graph, session=self.session, there=there, stayed=stayed, shares=shares
        )
        try:
            removing.unmask(total)
        except Exception:
            return None
        found: NDArray[np.int64] = self.summing.server.packing.unflatten(total)["numbers"][0]
        return found
