"""What people write: configurations, statements, plans."""

from pathlib import Path

from fleets.fuzz.files import file_parser
from fleets.fuzz.specimens import folder
from fleets.fuzz.trials import Parser

from fedboard.client.device.config import load_device
from fedboard.client.guarantee.account_sources import read_account
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.keys.node_keys import make_node_key
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.server.fleet.plan.settings import read_settings
from fedboard.simulations.config import parse_config, read_config

_DEVICE = """
state = "state"
[ratings]
store = "ratings.sqlite"
[policy]
epsilon = 8.0
delta = 1e-5
adjacency = "add-remove"
smallest_catalogue = 5
published_only = false
[server]
address = "127.0.0.1:8443"
ca_certificate = "ca.pem"
node_key = "node.key"
question_key = "question-signing.pub"
"""
_SIMULATION = """
algorithm = "residual"
seed = 3
[data]
source = "ratings.csv"
rating_range = [1.0, 5.0]
columns = { user = "u", item = "i", rating = "r" }
[data.synthetic]
n_users = 40
[privacy]
epsilon = 5.0
delta = 1e-5
noise = "seeded"
[run]
workers = 1
[settings]
rank = 4
"""
_PLAN = '[round-1]\nlinear = 8.0\n[round-2]\nlinear = { noise_multiplier = 9.0 }\n["shared"]\nitems = 7\n'
_EXAMPLE = Path(__file__).parents[4] / "examples" / "fleet" / "fleet.toml"


def configuration_parsers() -> list[Parser]:
    """Of people at the keyboard."""

    def fleet(place: Path) -> object:
        settings = read_settings(place)
        return settings, settings.public_keys

    text = _EXAMPLE.read_text(encoding="utf-8")
    make = folder() / "nodes" / "node.key"
    if not make.exists():
        make_node_key(make, name="ann")
    lines = iter(range(3))
    while "/node.pub" in text:
        one = folder() / "nodes" / f"{next(lines)}.key"
        line = make_node_key(one, name="ann").read_text().strip()
        start = text.rindex('"', 0, text.index("/node.pub"))
        stop = text.index('"', start + 1)
        text = f"{text[: start + 1]}{line}{text[stop:]}"
    both = (InputError, FedboardError)
    return [
        file_parser("device", "device.toml", load_device, (_DEVICE.encode(),), "toml", refusals=both),
        file_parser("fleet", "fleet.toml", fleet, (text.encode(),), "toml", refusals=both, share=0.3),
        file_parser(
            "simulation",
            "run.toml",
            lambda place: parse_config(read_config(place)),
            (_SIMULATION.encode(),),
            "toml",
            refusals=both,
            share=0.3,
        ),
        file_parser(
            "plan",
            "plan.toml",
            lambda place: read_account(place, Adjacency.ADD_REMOVE),
            (_PLAN.encode(),),
            "toml",
            refusals=both,
        ),
        file_parser(
            "plan-json",
            "plan.json",
            lambda place: read_account(place, Adjacency.ADD_REMOVE),
            (b'{"round-1": 8.0, "round-2": {"noise_multiplier": 9.0, "mechanism": "laplace"}}',),
            "json",
            refusals=both,
        ),
    ]
