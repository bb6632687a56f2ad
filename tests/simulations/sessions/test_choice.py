"""Which protocol a run names, and what of it is refused."""

from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.config import parse_config
from fedboard.simulations.sections import RunConfig
from fedboard.simulations.sessions.choice import chosen_card, chosen_class, sums_left
from fedboard.simulations.sessions.runtime import assumptions_of_protocol, recipe_of

HERE = "tests.simulations.sessions.own_protocol"


def test_what_is_no_protocol_is_refused_in_a_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    for choice, says in {
        "secure": "must be one of trusted, secure-sum",
        f"{HERE}:NOT_A_CLASS": "no class 'NOT_A_CLASS'",
        f"{HERE}:NotAProtocol": "lacks sized, from_parameters, open, join, resume",
        f"{HERE}:Forgetful": "lacks sized, from_parameters, join, open, parameters, resume, trust",
        f"{HERE}:Alone": "lacks pinned, helped_by, helped_here",
        "no.such.module:Plain": "cannot be imported",
        f"{tmp_path}/none.py:Plain": "no such Python file",
        f"{broken}:Plain": "cannot be loaded: ZeroDivisionError",
    }.items():
        with pytest.raises(InputError, match=says):
            chosen_class(choice)


def test_a_recipe_makes_the_same_protocol_again() -> None:
    run = RunConfig(protocol="secure-sum", clients=10, protocol_settings={"dropout": 0.1})
    recipe = recipe_of(run, backend="numpy", n_users=100)

    assert recipe.make().parameters == recipe.parameters
    assert recipe.parameters["most_users"] == 100
    assert recipe.parameters["dropout"] == 0.1
    with pytest.raises(InputError, match="clients"):
        recipe_of(RunConfig(protocol="secure-sum", clients=101), backend="numpy", n_users=100)
    with pytest.raises(InputError, match="leave them out"):
        recipe_of(RunConfig(clients=10), backend="numpy", n_users=100)


@pytest.mark.parametrize("name", ["Plain", "Boasting"])
def test_a_class_of_ones_own_gets_the_careful_answers_whatever_it_says(name: str) -> None:
    own = f"{HERE}:{name}"
    careful = " ".join(assumptions_of_protocol(RunConfig(protocol=own)))

    assert "How many users and clients there are is public" in careful
    assert "How many users" not in " ".join(assumptions_of_protocol(RunConfig()))
    with pytest.raises(InputError, match="draws who takes part among rows"):
        parse_config({"run": {"protocol": own}, "privacy": COHORT | {"adjacency": "replace"}})
    with pytest.raises(InputError, match="not known what is left"):
        sums_left(own, chosen_class(own).sized(clients=3, users=9, settings={}))
    assert (chosen_card(own).trusted, chosen_card(own).steps) == ("see its statement", "?")


COHORT: dict[str, object] = {"participation": {"kind": "fixed-size", "size": 9}}


@pytest.mark.parametrize(
    ("run", "privacy", "says"),
    [
        ({"dropout": 0.2}, {}, "other than 'trusted'"),
        ({"dropout": 1.0, "protocol": "local"}, {}, r"must be in \[0, 1\)"),
        ({"clients": 0, "protocol": "local"}, {}, "run.clients must be"),
        ({"dropout": 0.2, "protocol": "local", "runtime": "flower"}, {}, "needs run.runtime 'engine'"),
        ({"protocol": "a.b:C", "runtime": "in-process"}, {}, "needs run.runtime 'engine'"),
        ({"protocol": "local"}, COHORT | {"adjacency": "replace"}, "draws who takes part among rows"),
        ({}, COHORT, "a user more takes the place of another: set privacy.adjacency"),
        (
            {"protocol": "local", "dropout": 0.2},
            {"noise": "secure"},
            "one user's presence decides about others",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    run: dict[str, object], privacy: dict[str, object], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        parse_config({"run": run, "privacy": privacy})
