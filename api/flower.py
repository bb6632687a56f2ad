"""fedboard inside a Flower app of one's own: a ``Strategy`` for the ServerApp, ``answer`` for the ClientApp.

    from fedboard.flower import BillboardStrategy, answer

``fedboard flower new DIR`` writes an app with both, which ``flwr run DIR`` runs.
"""

from fedboard.client.flower import People, answer
from fedboard.common.board import Catalogue
from fedboard.server.flower import BillboardStrategy

__all__ = ["BillboardStrategy", "Catalogue", "People", "answer"]
