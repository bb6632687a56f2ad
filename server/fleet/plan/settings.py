"""The one file that a fleet's server is run by: ``fleet.toml``."""

import re
import tomllib
from pathlib import Path

import msgspec

from fedboard.common.checks import sentence_of
from fedboard.common.errors import InputError, SettingError
from fedboard.common.keys.node_keys import public_key_pem
from fedboard.common.protocols.registry import names_where, says
from fedboard.common.protocols.shared.properties import has_second_server, shows_rows
from fedboard.common.wire.addresses import parse_address
from fedboard.server.fleet.plan.job import MOST_USERS
from fedboard.server.fleet.plan.sections import (
    BoardSection,
    CatalogueSection,
    EnrolmentSection,
    NetworkSection,
    NodeSection,
    QuestionsSection,
    TaskSection,
)
from fedboard.server.run_spec import (
    MOST_SECONDS,
    ParticipationChoice,
    Promise,
    ProtocolChoice,
    RoundPace,
    Section,
    require_steps_fit,
)

NAME_RULE = "letters, digits, '.', '_' and '-', at most 64, the first a letter or a digit"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class FleetSettings(Section, frozen=True, kw_only=True):
    """All of ``fleet.toml``. Paths are relative to its folder."""

    name: str
    """Of the training run; part of every question to a device."""
    state: Path
    """Folder of all that must survive: ledger, boards, SuperLink's database, logs; ``state`` if not given."""
    task: TaskSection = TaskSection()
    privacy: Promise
    catalogue: CatalogueSection
    rounds: RoundPace
    protocol: ProtocolChoice = ProtocolChoice()
    network: NetworkSection
    nodes: tuple[NodeSection, ...] = ()
    enrolment: EnrolmentSection | None = None
    board: BoardSection = BoardSection()
    questions: QuestionsSection | None = None

    def __post_init__(self) -> None:
        """Check ranges, and that the numbers go together.

        Raises:
            SettingError: names the key.
        """
        require_steps_fit(self.protocol, self.rounds)
        for rule, holds in self._rules().items():
            if not holds:
                raise SettingError(rule)

    def _rules(self) -> dict[str, bool]:
        ports = [self.network.port, self.network.superlink_port]
        ports += [self.board.port] if self.board.enabled else []
        ports += [] if self.board.metrics_port is None else [self.board.metrics_port]
        low, high = self.task.rating_range
        names = [node.name for node in self.nodes]
        enrolled, users = 0, 0
        if self.enrolment is not None:
            enrolled, users = self.enrolment.max_devices, self.enrolment.most_users
        rounds, privacy = self.rounds, self.privacy
        return {
            f"name must be {NAME_RULE}": is_name(self.name),
            "task.rating_range must be LOW < HIGH": low < high,
            "privacy.participation, privacy.population and privacy.lineage are for simulations: in a fleet "
            "everybody takes part, and no account of a population is kept; leave them out": (
                (privacy.participation, privacy.population, privacy.lineage)
                == (ParticipationChoice(), None, None)
            ),
            "questions.epsilon is of the training too: it must be larger than privacy.epsilon, or questions.alone "
            "true": self.questions is None
            or self.questions.alone
            or self.questions.epsilon > privacy.epsilon,
            "rounds.expected_nodes must be at most the number of [[nodes]] and enrolment.max_devices together": (
                rounds.expected_nodes <= len(self.nodes) + enrolled
            ),
            f"protocol.helper is needed for {names_where(has_second_server)}, and for nothing else": (
                (self.protocol.helper is not None) == says(self.protocol.name, has_second_server)
            ),
            "protocol.roster is needed where protocol.settings has vouched_by, and nowhere else": (
                (self.protocol.roster is not None) == bool(self.protocol.settings.get("vouched_by"))
            ),
            f"rounds.form is of protocol {names_where(shows_rows)} alone": rounds.form == "factored"
            or says(self.protocol.name, shows_rows),
            "ports must be in [1, 65535]": all(1 <= port <= 65535 for port in ports),
            "ports must differ (port, superlink_port, board.port, metrics_port)": len(set(ports))
            == len(ports),
            "network.max_request_megabytes must be >= 1": self.network.max_request_megabytes >= 1,
            "network.max_megabytes_per_minute must be >= network.max_request_megabytes": (
                self.network.max_megabytes_per_minute >= self.network.max_request_megabytes
            ),
            "network.polls_per_second must be in (0, 100000]": 0 < self.network.polls_per_second <= 100_000,
            "network.connections must be >= 1": self.network.connections >= 1,
            "network.connections_per_address must be >= 0": self.network.connections_per_address >= 0,
            "network.idle_seconds must be in (0, 1000000)": 0 < self.network.idle_seconds < MOST_SECONDS,
            "nodes.name must be given once each": len(set(names)) == len(names),
            "nodes.max_users must be >= 1": all(node.max_users >= 1 for node in self.nodes),
            f"nodes.max_users, and enrolment.max_users with them, must add to at most {MOST_USERS}": (
                sum(node.max_users for node in self.nodes) + users <= MOST_USERS
            ),
            **({} if self.enrolment is None else _rules_of(self.enrolment)),
            "network.max_requests_per_minute and max_answers_per_minute must be >= 1": (
                min(self.network.max_requests_per_minute, self.network.max_answers_per_minute) >= 1
            ),
            "board.signing_key is needed where board.enabled is true": not self.board.enabled
            or self.board.signing_key is not None,
            "board.witnesses needs board.enabled = true": self.board.enabled or not self.board.witnesses,
            'board.simulation must be true where board.enabled is and privacy.noise is "seeded": anybody who knows '
            "the seed can remove the noise from such boards": not self.board.enabled
            or self.board.simulation
            or privacy.noise == "secure",
        }

    @property
    def public_keys(self) -> dict[str, NodeSection]:
        """The admitted nodes by public key, PEM text as Flower keeps it.

        Raises:
            InputError: a key is none, or two nodes have the same.
        """
        found: dict[str, NodeSection] = {}
        for node in self.nodes:
            pem = public_key_pem(node.public_key, source=f"nodes: public_key of {node.name!r}")
            if pem in found:
                raise InputError(f"nodes: {node.name!r} has the same public_key as {found[pem].name!r}")
            found[pem] = node
        return found


def _rules_of(enrolment: EnrolmentSection) -> dict[str, bool]:
    each, users = enrolment.max_users_per_device, enrolment.most_users
    return {
        "enrolment.max_devices must be >= 1": enrolment.max_devices >= 1,
        "enrolment.max_users_per_device must be >= 1": each >= 1,
        "enrolment.max_users must be >= max_users_per_device": users >= each,
        "enrolment.invitation_hours must be in (0, 8760]": 0 < enrolment.invitation_hours <= 8760,
        "enrolment.joins_per_minute and joins_per_address must be >= 1": (
            min(enrolment.joins_per_minute, enrolment.joins_per_address) >= 1
        ),
        "enrolment.address must be HOST:PORT": _is_place(enrolment.address),
    }


def _is_place(text: str) -> bool:
    try:
        parse_address(text, name="enrolment.address")
    except InputError:
        return False
    return True


def is_name(text: str) -> bool:
    """Whether this can name a run or a node, and a file."""
    return _NAME.fullmatch(text) is not None


def read_settings(path: Path) -> FleetSettings:
    """Read and check ``fleet.toml``.

    Raises:
        InputError: no such file, not TOML, an unknown key, a wrong type or a value out of range.
    """
    folder = path.absolute().parent
    try:
        raw = {"state": "state", **tomllib.loads(path.read_text(encoding="utf-8"))}
        settings = msgspec.convert(raw, FleetSettings, dec_hook=lambda _, text: folder / str(text))
    except OSError as error:
        raise InputError(f"{path}: no configuration can be read there ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(f"{path}: {sentence_of(error, FleetSettings)}") from error
    nodes = tuple(
        msgspec.structs.replace(node, public_key=_key_line(node, folder)) for node in settings.nodes
    )
    return msgspec.structs.replace(settings, nodes=nodes)


def _key_line(node: NodeSection, folder: Path) -> str:
    if node.public_key.startswith("ecdsa-"):
        return node.public_key
    place = folder / node.public_key
    try:
        return place.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"nodes: the public_key of {node.name!r} cannot be read at {place}") from error
