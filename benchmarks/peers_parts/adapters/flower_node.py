"""The ClientApp of the row for Flower: a module, so that Ray's processes import it and keep the data once read."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from harness import Job, read_job
from plain_round import first_board, rows_of, sums_of

NODES = 10


@lru_cache(maxsize=1)
def kept(folder: str) -> Job:
    """Of a process of Ray: the data are read once."""
    return read_job(Path(folder), {}, 1)


def client(folder: str) -> Any:
    from flwr.app import Array, ArrayRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query()
    def part(message: Any, context: Any) -> Any:
        job, node = kept(folder), int(context.node_config["partition-id"])
        board = first_board(job.spec, job.arrays)._replace(
            factors=message.content["board"]["factors"].numpy()
        )
        ends = [job.n_users * k // NODES for k in range(NODES + 1)]
        bounds = job.row_bounds()[ends[node] : ends[node + 1] + 1]
        quadratic, linear = sums_of(rows_of(bounds, job.item, job.rating), board)
        arrays = {"quadratic": Array(quadratic), "linear": Array(linear)}
        return Message(RecordDict({"sums": ArrayRecord(arrays)}), reply_to=message)

    return app
