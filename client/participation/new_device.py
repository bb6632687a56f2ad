"""A new device: a folder with an empty rating store and a commented configuration."""

import os
from pathlib import Path

from fedboard.client.participation.policy import Policy
from fedboard.client.ratings.store import RatingStore
from fedboard.common.errors import InputError
from fedboard.common.privacy.adjacency import Adjacency

_TEMPLATE = """\
# What this device gives, to whom, and where its files are. Paths are relative to this file.

[ratings]
store = "ratings.sqlite"        # one person's ratings; see: fedboard ratings --help
# cohort = "cohort"             # instead, at a gateway: a folder with the ratings of many users
# first_row = 0                 # number of the (first) user, where a run numbers its users

[policy]
# Whatever a server asks, everything that this device ever gives costs at most this much privacy.
# The limit is written into the ledger at the first use; later it can be lowered here, not raised.
epsilon = {epsilon}
delta = {delta}
adjacency = "{adjacency}"
# epsilon_per_run = 1.0         # and one run at most this much
# scale_down = true             # where a run costs more: give a smaller part of yourself, in all its rounds
# smallest_scale = 0.1          # ... but at least this part, or nothing
# least_noise = 1.0             # refuse runs with a release of less noise (its noise multiplier)
# runs = ["movies-*"]           # answer these runs alone; * stands for anything
# tasks = ["residual"]          # ... these tasks alone
# questions = ["mean of ratings", "* of counts"]  # answer these questions to a fleet; left out: none
# epsilon_of_questions = 1.0    # and all questions together at most this much
# protocols = ["trusted"]       # ... these aggregation protocols alone
# least_survivors = 5           # where contributions are masked: in sums of at least so many clients alone
# most_honest = 20              # where clients add the noise: runs that count on so many honest ones at most
# helper = "0000000000000000000000000000000000000000000000000000000000000000"  # the second server (fedboard helper)
# vouched_by = "0000000000000000000000000000000000000000000000000000000000000000"  # (fedboard keys sign)
# least_colluding = 0.1         # with vouched_by: sums that bear so many colluding devices of the list, at least
# catalogues = ["..."]          # answer about these catalogues alone (digests, from: fedboard status)
# smallest_catalogue = 50       # fewer items make the question too pointed
# seeded_noise = true           # take simulations too, runs and boards, whose noise the server can remove
# published_only = true         # answer only about boards that come, signed for everybody, from [boards]
# answers_kept_hours = 24.0     # how long a server that lost an answer may have the same one again

# [server]                      # a device that trains
# address = "fedboard.example.org:8443"
# authority = "authority.pem"   # who vouches for it
# key = "device.key"            # by which it knows this device; made by: fedboard client join
# question_key = "questions.pub"  # who may ask: the key that this server signs its questions with
# identity_key = "identity.key" # by which other devices know this one; see: fedboard keys new identity
# max_question_megabytes = 64   # larger questions (with the board) are refused unread
# max_answer_megabytes = 256    # as are questions whose answer would hold sums of more than that

# [boards]                      # where boards come from
# source = "fedboard.example.org:8443"
# public_key = "boards.pub"
# ca_certificate = "ca.pem"     # who vouches for the source, where it is not the one of [server]
# cache = "boards"
# max_bytes = 1073741824        # room for boards
# witnesses = ["0000000000000000000000000000000000000000000000000000000000000000"]  # (keys new witness) ...
# cosignatures = 1              # ... answer only about boards that so many of them have cosigned: more than half
"""


def make_device(folder: Path, *, epsilon: float, delta: float, adjacency: str) -> Path:
    """Make a device in a folder.

    Args:
        folder: made if it is missing; readable by its owner alone if so.
        epsilon: her limit over all runs. Public.
        delta: of that limit. Public.
        adjacency: of that limit. Public.

    Returns:
        The configuration file.

    Raises:
        InputError: a device is there already.
        PrivacyError: epsilon or delta is out of range.
    """
    Policy(epsilon=epsilon, delta=delta, adjacency=Adjacency(adjacency))
    path = folder / "device.toml"
    if path.exists():
        raise InputError(f"{path}: there is a device already; edit that file, or choose another folder")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        RatingStore.create(folder / "ratings.sqlite").close()
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as stream:
            stream.write(_TEMPLATE.format(epsilon=float(epsilon), delta=float(delta), adjacency=adjacency))
    except OSError as error:
        raise InputError(f"{folder}: no device can be made there ({error.strerror})") from error
    return path
