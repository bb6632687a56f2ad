"""All that is known here of fedboard beside the table of options: its Python face, its commands, files of a run."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import fedboard
from same_boards_parts.people import People
from same_boards_parts.processes import free_ports

TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("table.toml").read_text(encoding="utf-8"))


class Fedboard:
    """The faces of fedboard that are used here: ``import fedboard``, the command, and files of a run."""

    Refusal = fedboard.errors.InputError

    @staticmethod
    def names() -> tuple[str, ...]:
        """Algorithms and protocols that there are."""
        return (*fedboard.algorithms(), *fedboard.protocols())

    @staticmethod
    def run(
        of: str, people: People, *, protocol: str = "trusted", runtime: str = "memory", **more: Any
    ) -> dict[str, Any]:
        """The configuration of a run."""
        examples, streamed = of in TABLE["sets"]["examples"], "streamed" in runtime
        data = {"source": str(people.ratings), "rating_range": [1, 5], "titles": str(people.titles)}
        if examples or streamed:
            data = {"source": str(people.examples if examples else people.shards)}
        if "source" in more.get("data", {}):
            data = {}
        run = {
            "baselines": False,
            "evaluate_rounds": False,
            "kernels": "numpy",
            "protocol": TABLE["protocols"][protocol],
        }
        run |= {} if protocol == "trusted" else {"clients": 6}
        config = {"seed": 3, "data": data, "run": {**run, **TABLE["runtimes"][runtime]["run"]}}
        config |= TABLE["algorithms"][of]
        for key, value in more.items():
            config[key] = {**config[key], **value} if isinstance(config.get(key), dict) else value
        return config

    @staticmethod
    def simulate(config: Mapping[str, Any], folder: Path) -> None:
        fedboard.simulate(config=config, out=folder, report=False)

    @staticmethod
    def ask(data: Path, **options: Any) -> tuple[list[Any], dict[str, Any]]:
        """Numbers of the answer, and its certificate."""
        reply = fedboard.ask(
            data=data, epsilon=0.5, budget=2.0, rating_range=(1, 5), noise="seeded", seed=3, **options
        )
        return [reply.value, reply.interval, reply.rank_error], reply.certificate.to_dict()

    @staticmethod
    def boards(folder: Path) -> list[tuple[list[np.ndarray], tuple[str, ...]]]:
        """Arrays and items of each board of a run."""
        found = map(fedboard.Board.load, sorted((folder / "boards").glob("board-*.board")))
        return [(list(board.arrays.values()), tuple(board.catalogue.item_ids)) for board in found]

    @staticmethod
    def certificate(folder: Path) -> dict[str, Any]:
        """The certificate, where it holds against boards and ledger."""
        if failed := fedboard.verify(folder).failed:
            raise ValueError(f"its certificate does not hold: {failed}")
        found: dict[str, Any] = json.loads((folder / "certificate.json").read_text())
        return found

    @staticmethod
    def releases(certificate: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Each that is booked, in order."""
        return list(certificate["releases"])

    @staticmethod
    def claim(certificate: Mapping[str, Any]) -> list[Any]:
        claim, composed = certificate["claim"], certificate["composition"]
        return [claim["epsilon"], claim["delta"], composed.get("mu")]

    @staticmethod
    def metrics(folder: Path) -> list[dict[str, Any]]:
        """Each round's, and last those of the whole run, without what is not a metric."""
        lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        kept = ("metrics", "baselines", "sliced", "baselines_sliced", "by_activity", "neighbours")
        return [{key: line[key] for key in kept if key in line} for line in lines]

    @staticmethod
    def read(source: Path, name: str) -> tuple[list[Any], list[np.ndarray]]:
        """Ids in order, and triples in order."""
        found = fedboard.load_ratings(source, rating_range=(1, 5), data_format=name)
        ids = [found.user_ids.tolist(), found.item_ids.tolist(), found.titles]
        return ids, [found.users, found.items, found.values]

    @staticmethod
    def command(*words: object) -> None:
        """Run a command of the command line, and end where it fails."""
        subprocess.run([_command(), *map(str, words)], check=True, capture_output=True, text=True)

    @classmethod
    def shard(cls, source: Path, folder: Path, name: str = "csv") -> None:
        options = ("--format", name, "--rating-range", "1,5", "--shard-ratings", 300)
        cls.command("data", "shard", source, "--out", folder, *options)

    @staticmethod
    def columns(shards: Path) -> tuple[list[Any], list[np.ndarray]]:
        """Items, and whose, what, how and when of each rating, in order."""
        from pyarrow import concat_tables, parquet

        rows = concat_tables([parquet.read_table(path) for path in sorted(shards.glob("ratings-*.parquet"))])
        items = parquet.read_table(shards / "items.parquet").to_pydict()
        counts, lists = rows["count"].to_numpy(), ("items", "values", "times")
        users = [np.arange(rows.num_rows), rows["key"].to_numpy()]
        columns = [np.repeat(column, counts) for column in users]
        columns += [
            rows[name].combine_chunks().flatten().to_numpy() for name in lists if name in rows.column_names
        ]
        return list(items.values()), columns

    @classmethod
    def keys(cls, people: People) -> Path:
        """Keys of a server, made once for all fleets, and the ratings of its gateways."""
        folder = people.folder / "quick"
        if not folder.exists():
            cls.command("fleet", "init", folder, "--data-catalogue", people.titles, "--devices", 1)
            for device, (first, end) in TABLE["fleet"]["users"].items():
                users = ("--users", f"{first}:{end}", "--rating-range", "1,5")
                to = ("--as", "cohort", "--out", folder / f"cohort-{device}")
                cls.command("data", "shard", people.ratings, *to, *users)
        return folder

    @classmethod
    def fleet(
        cls, name: str, protocol: str, people: People, folder: Path
    ) -> tuple[Path, int, dict[str, list[str]]]:
        """Write a fleet: the folder of its run, its port, and the commands of its processes, server first."""
        port, ops = free_ports(2)
        learnt = {"feedback": "explicit", "settings": {}, **TABLE["algorithms"][name]}
        told = {
            key: json.dumps(learnt[key]).replace(":", " =") for key in ("algorithm", "feedback", "settings")
        }
        quick, gateways, config = cls.keys(people), TABLE["fleet"]["users"], folder / "fleet.toml"
        told |= {"protocol": TABLE["protocols"][protocol], "keys": str(quick / "keys")}
        users = sum(end - first for first, end in gateways.values())
        text = TABLE["fleet"]["server"]
        config.write_text(text.format(**told, titles=people.titles, port=port, ops=ops, users=users))
        cls.command("server", "--check", "--config", config)
        words = {"server": ["server", "--until-trained", "--config", str(config)]}
        for device, (first, end) in gateways.items():
            place, invitation = folder / device, folder / f"{device}.invitation"
            cls.command(
                "fleet", "invite", device, "--users", end - first, "--out", invitation, "--config", config
            )
            place.mkdir()
            ratings = f'ratings = {{ cohort = "{quick / f"cohort-{device}"}" }}'
            (place / "device.toml").write_text(f"{ratings}\n{TABLE['fleet']['policy']}\n")
            words[device] = ["client", "join", "--invitation", str(invitation), "--out", str(place), "--run"]
        run = folder / "state" / "runs" / "trial"
        return run, port, {key: [_command(), *rest] for key, rest in words.items()}


def _command() -> str:
    return str(Path(sys.executable).with_name("fedboard"))
