"""``fedboard protocols``: whom to trust."""

import json

import pytest

from fedboard.common.protocols.registry import PROTOCOL_NAMES, sized_protocol
from tests.cli.conftest import Command


def test_the_list_has_a_line_for_each_protocol(fedboard: Command) -> None:
    result = fedboard("protocols", "show")

    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(PROTOCOL_NAMES)]] == list(PROTOCOL_NAMES)
    assert "one of two servers" in result.output


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_the_whole_statement_is_shown_as_the_certificate_has_it(fedboard: Command, name: str) -> None:
    trust = sized_protocol(name, clients=50, users=50).trust

    result = fedboard("protocols", "show", name, "--devices", "50")

    shown = " ".join(result.output.split())
    assert result.exit_code == 0
    assert all(" ".join(sentence.split()) in shown for sentence in trust.sentences)


def test_parameters_are_explained(fedboard: Command) -> None:
    result = fedboard("protocols", "show", "two-server")
    record = json.loads(fedboard("protocols", "show", "two-server", "--json").output)

    for name, value in record["parameters"].items():
        line = next(line for line in result.output.splitlines() if line.startswith(name))
        assert str(value) in line
        assert len(line.split()) > 4
    assert record["trust"]["privacy_relies_on"]
