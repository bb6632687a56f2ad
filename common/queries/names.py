"""What questions to fleets are called: as tasks on boards, and as releases in ledgers."""

import re
from typing import Final

TASK: Final = "question"
"""Of the boards of a question."""
_RELEASE = re.compile(r"question-[0-9]{1,9}(?:/[0-9]{1,2})?")


def of_question(release: str) -> bool:
    """Whether a release of this name is a question's; no training has such names."""
    return _RELEASE.fullmatch(release) is not None
