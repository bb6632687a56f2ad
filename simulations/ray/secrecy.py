"""What a cluster sees of a round, and what it takes to keep that from whoever watches its network."""

import os
from typing import Final

from fedboard.common.errors import PrivacyError
from fedboard.simulations.ray.cluster import Cluster

CLUSTER_IS_TRUSTED: Final = (
    "The sums were formed and noised on the machines of a Ray cluster. Each of them, and whoever can reach its "
    "ports or its disks, sees what the aggregator sees: ratings, exact sums and the keys of the noise. They are "
    "trusted as it is."
)
"""For certificates of runs on a cluster that was not started for them alone."""


def require_encrypted(cluster: Cluster, *, private: bool) -> None:
    """Refuse to send secret noise and the sums below it over a network in the clear.

    Args:
        cluster: where they would go.
        private: whether the noise is secret.

    Raises:
        PrivacyError: it is, and Ray does not encrypt.
    """
    if not private or cluster.is_local or _encrypts():
        return
    raise PrivacyError(
        f"with privacy.noise 'secure' exact sums and the keys of the noise would go to the Ray cluster at "
        f"{cluster.address} in the clear: switch Ray's encryption on, there and here (RAY_USE_TLS=1, see "
        "docs/guide/ray.md), or let Ray run on this machine alone"
    )


def _encrypts() -> bool:
    """As Ray reads it."""
    return os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")
