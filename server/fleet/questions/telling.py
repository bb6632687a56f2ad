"""The answer to a question that a fleet was asked, from what its rounds left behind; all of it public."""

from dataclasses import asdict, dataclass
from typing import Any

from fedboard.common.certificate import Certificate
from fedboard.common.errors import InputError
from fedboard.common.questions.answer import Answer, Mechanism
from fedboard.common.questions.statement import QuestionStatement
from fedboard.common.questions.wording import rank_unit
from fedboard.server.fleet.questions.places import PutQuestion, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldByFleet:
    """A question that a fleet has answered, and what it cost. Public."""

    statement: QuestionStatement
    answer: Answer
    certificate: Certificate

    def to_dict(self) -> dict[str, Any]:
        """JSON-able, without the certificate; the keys of a question to a data set."""
        statement, total = self.statement, self.certificate.population
        assert total is not None  # a fleet keeps an account
        return {
            "question": statement.title,
            **asdict(self.answer),
            "rank_unit": None
            if self.answer.rank_error is None
            else rank_unit(statement.subject, statement.bound),
            "mechanism": str(Mechanism.GAUSSIAN),
            "release": statement.release,
            "epsilon": statement.epsilon,
            "claimed": self.certificate.claim.epsilon,
            "spent": total.spent,
            "reserved": total.committed,
            "budget": total.budget,
            "delta": statement.delta,
            "adjacency": str(statement.adjacency),
            "private": self.certificate.private,
        }


def told(put: PutQuestion) -> ToldByFleet:
    """The answer.

    Raises:
        InputError: there is none yet, or it was given up; says why.
    """
    task, board = put.task(), put.last_board()
    match put.standing():
        case Standing.WAITING:
            raise InputError(
                f"{put.name} is not answered yet; it waits for the fleet's server and its devices"
            )
        case Standing.CLOSED:
            raise InputError(
                f"{put.name} was given up: {put.reason}; put it again if it is worth its epsilon"
            )
    certificate = Certificate.from_dict(dict(board.certificate or {}))
    return ToldByFleet(statement=task.statement, answer=task.answer(board), certificate=certificate)
