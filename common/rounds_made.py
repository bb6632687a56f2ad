"""How many rounds of a run came to something: a statement of its certificate."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsMade:
    """Of one run, up to one board. Public: whoever has all boards sees which of them are equal."""

    planned: int
    """Rounds of the whole run."""
    made: int
    """Rounds whose releases made a board."""
    lost: int
    """Rounds whose budget is spent though nothing came of them: too few answered, or the server ended meanwhile."""

    @property
    def consistent(self) -> bool:
        """Whether such numbers can be."""
        return self.made >= 0 and self.lost >= 0 and self.made + self.lost <= self.planned

    @property
    def sentence(self) -> str:
        """For people."""
        lost = f"{self.lost} lost with their budget" if self.lost else "none lost"
        left = self.planned - self.made - self.lost
        return (
            f"Of {self.planned} planned rounds {self.made} were made, {lost}, and {left} are still to come."
        )

    def after(self, *, lost: bool) -> "RoundsMade":
        """With one more round."""
        return RoundsMade(planned=self.planned, made=self.made + (not lost), lost=self.lost + lost)
