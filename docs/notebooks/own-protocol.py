# %% [markdown]
# # Your own protocol
#
# A protocol says how what many clients give becomes one sum, and whom that asks to be trusted. Here is one with any number
# of servers: every client cuts its numbers into as many random shares, one for each server, and only all shares together
# say anything. You should see the board of the protocol that trusts its server, but for rounding to 32 bits, and a share that
# is plain noise.

# %%
import os
from dataclasses import dataclass

import numpy as np

import fedboard
from fedboard.common.errors import InputError
from fedboard.common.protocol import NoiseAt, Trust
from fedboard.common.protocols.sessions import OneStepClient, OneStepServer
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.sums.residues import coarse_sums
from fedboard.common.messages.frame import pack_frame, unpack_frame
from fedboard.common.messages.refusals import Refusal, RefusedError

# %% [markdown]
# ## The servers' side
#
# All sums of a round are one vector of numbers modulo 2^32 (`Packing`). Each server adds up the shares that it gets. What a
# client sends need not be honest: it is checked before anything is changed.


# %%
class Servers:
    def __init__(self, packing, n_servers):
        self.packing = packing
        self.totals = np.zeros((n_servers, packing.size), dtype=np.uint32)

    def add(self, message):
        limit = 4 * self.totals.size + 4096
        shares = unpack_frame(message, kinds=("shares",), limit=limit).arrays.get(
            "shares"
        )
        if (
            shares is None
            or shares.dtype != np.uint32
            or shares.shape != self.totals.shape
        ):
            raise RefusedError(Refusal.MALFORMED)
        self.totals += shares

    def sums(self):
        together = self.totals.sum(
            axis=0, dtype=np.uint32
        )  # the only moment at which the servers talk
        return DenseSums(
            sums=self.packing.unflatten(together),
            residue_bits=self.packing.residue_bits,
        )


# %% [markdown]
# ## The protocol
#
# What it claims comes first: every sentence of `Trust` goes into the certificate as it is. `coarse_sums` checks every row of
# a client against its declared bounds before the row is cut into shares, because afterwards nobody can.


# %%
@dataclass(frozen=True, kw_only=True)
class ManyShares:
    name = NAME = "many-shares"
    noise_at = NoiseAt.SERVER
    trust = Trust(
        server_sees="Each server sees one uniformly random share of a client's sums, and all shares of the total.",
        network_sees="Whoever reads all shares of a message reads a client's sums: they must be sealed apart.",
        clients_see="Clients see the published boards only.",
        privacy_relies_on="One of the servers must not collude with the others, and noise must be added.",
        utility_relies_on="All servers and all clients must be honest.",
        malicious_client="A malicious client can add any numbers: nobody sees what it gives, so nothing bounds it.",
    )
    most_users: int
    servers: int = 3
    backend: str = "numpy"

    def __post_init__(self):
        if not 2 <= self.servers <= 16 or self.most_users < 1:
            raise InputError(
                f"many-shares needs 2 to 16 servers and a user, got {self.servers}, {self.most_users}"
            )

    @property
    def parameters(self):
        return {"most_users": self.most_users, "servers": self.servers}

    @classmethod
    def sized(cls, *, clients, users, settings, backend="numpy"):
        return cls.from_parameters({"most_users": users, **settings}, backend=backend)

    @classmethod
    def from_parameters(cls, parameters, *, backend="numpy"):
        if unknown := set(parameters) - {"most_users", "servers"}:
            raise InputError(
                f"many-shares has the settings most_users and servers, got {sorted(unknown)}"
            )
        return cls(**parameters, backend=backend)

    def noise(self, drawn):
        return drawn  # the servers draw the noise of every release, as in the trusted protocol

    def open(self, about, requests, clients, *, n_items):
        adding = Servers(
            Packing.of(requests, most_users=self.most_users), self.servers
        )
        return OneStepServer(about=about, clients=clients, adding=adding)

    def join(self, about, noise):
        return OneStepClient(about=about, pack=self.cut)

    def resume(self, about, noise, state):
        return OneStepClient(about=about, pack=self.cut, sent=state)

    def cut(self, given):
        packing = Packing.of(given.requests, most_users=self.most_users)
        checked = coarse_sums(
            given.contribution, given.requests, packing.shifts, backend=self.backend
        )
        random = np.frombuffer(
            os.urandom(4 * packing.size * (self.servers - 1)), dtype=np.uint32
        )
        shares = random.reshape(self.servers - 1, packing.size)
        last = packing.flatten(checked) - shares.sum(axis=0, dtype=np.uint32)
        return pack_frame("shares", {}, {"shares": np.vstack([shares, last])})


# %% [markdown]
# ## It runs
#
# A real session: each of 30 clients hosts some of the users and sends one message a round.

# %%
shared = {
    "data": {
        "synthetic": {"n_users": 300, "n_items": 60, "mean_ratings_per_user": 15}
    },
    "epsilon": 20.0,
    "rank": 2,
    "rounds": 1,
    "baselines": False,
    "report": False,
}
ours = fedboard.simulate(
    protocol="__main__:ManyShares",
    config={"run": {"protocol_settings": {"servers": 4}}},
    clients=30,
    out="runs/shares",
    **shared,
)
for sentence in ours.certificate.trust:
    print("-", sentence)

# %% [markdown]
# The sums are exact on a grid that has room in 32 bits, which is a little coarser than that of the protocol in which one
# server sees every row. The noise is the same, so the boards differ by rounding alone:

# %%
trusted = fedboard.simulate(protocol="trusted", out="runs/trusted", **shared)
difference = max(
    float(
        np.abs(
            np.asarray(ours.board.arrays[name], dtype=float)
            - np.asarray(values, dtype=float)
        ).max()
    )
    for name, values in trusted.board.arrays.items()
)
print("largest difference of any number on the boards:", difference)
assert difference < 1e-3

# %% [markdown]
# ## What one server sees
#
# One client gives the same thing a thousand times. What the first server gets should be uniform on 0 .. 2^32 - 1, whatever
# was given; its mean, over all numbers and times, lies in the middle.

# %%
from scipy.stats import kstest

from fedboard.common.contribution import Contribution
from fedboard.common.protocol import Given
from fedboard.common.algorithms.registry import rebuild_task

task = rebuild_task(trusted.board)
first = task.first_board(trusted.board.catalogue)
requests = task.requests(first)
nobody = Contribution(
    n_items=60,
    indptr=np.array([0, 0]),
    items=np.zeros(0, dtype=np.int32),
    weights=np.zeros(0, dtype=np.int16),
    totals={
        request.name: np.zeros((1, request.release.width), dtype=np.int64)
        for request in requests
        if request.source == "total"
    },
)
protocol = ManyShares(most_users=300)
seen = [
    unpack_frame(
        protocol.cut(Given(contribution=nobody, requests=requests)),
        kinds=("shares",),
        limit=1 << 20,
    )
    .arrays["shares"][0]
    .astype(float)
    for _ in range(1000)
]
share = np.concatenate(seen) / 2.0**32
print(
    f"{share.size} numbers, mean {share.mean():.4f}, p-value of uniform {kstest(share, 'uniform').pvalue:.3f}"
)
assert kstest(share, "uniform").pvalue > 1e-9

# %% [markdown]
# What this does *not* show: the four servers are four rows of an array in one process. A deployment has them in four houses,
# and seals each share to its server. [Writing your own protocol](../guide/writing-a-protocol.md) goes on from here: fleets,
# devices that are asked whether they accept it, and the tests that every protocol has to pass.
