"""Noise that simulated clients draw themselves: one seed for each, the same in every runtime."""

import hashlib

from fedboard.common.privacy.releases.noise import SeededNoise

_SEED_BYTES = 8


def client_seed(seed: int, version: int, client: int) -> int:
    """The seed of one client's noise in one round: SHA-256 of all three, so that no two clients share a draw.

    Args:
        seed: of the run.
        version: of the board that is asked about.
        client: its number, from 0.
    """
    text = f"fedboard client noise\0{seed}\0{version}\0{client}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:_SEED_BYTES], "little")


def client_noise(seed: int, version: int, client: int) -> SeededNoise:
    """What a simulated client draws from in one round. Not private."""
    return SeededNoise(client_seed(seed, version, client))
