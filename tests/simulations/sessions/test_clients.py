"""What simulated clients draw from: another stream for each client and each round."""

from itertools import product

from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from fedboard.simulations.sessions.clients import noise_of


def test_no_two_clients_rounds_or_runs_share_a_draw() -> None:
    drawn = {
        noise_of(SeededNoise(seed), version=version, client=client).stream("linear").bits(0, 2).tobytes()
        for seed, version, client in product((0, 1, 11), repeat=3)
    }
    assert len(drawn) == 27
    again = noise_of(SeededNoise(11), version=1, client=0).stream("linear").bits(0, 2)
    assert again.tobytes() in drawn  # the same in every runtime


def test_clients_of_a_private_run_have_keys_of_their_own() -> None:
    sources = [noise_of(SecureNoise(), version=1, client=0) for _ in range(2)]
    first, second = (source.stream("linear").bits(0, 2).tolist() for source in sources)

    assert sources[0].private
    assert first != second
