"""Made-up people, any number of them: a person is a function of the seed and of her number alone."""

from fedboard.simulations.data.synthetic.people.config import (
    PREFIX,
    PeopleConfig,
    is_people,
    people_config,
)
from fedboard.simulations.data.synthetic.people.stream import PeopleStream, open_people, ratings_of_people

__all__ = [
    "PREFIX",
    "PeopleConfig",
    "PeopleStream",
    "is_people",
    "open_people",
    "people_config",
    "ratings_of_people",
]
