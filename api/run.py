"""A finished run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.errors import InputError
from fedboard.common.privacy.shown import table_html
from fedboard.configuring import IN_MEMORY
from fedboard.guarantees import Verification, verify
from fedboard.simulations.config import parse_config
from fedboard.simulations.data.splits.tables import SplitTables
from fedboard.simulations.problem import Problem, load_problem
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.simulate import RunResult


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Run:
    """A finished run. Its text and its HTML show what is public; held-out metrics are for whoever asks."""

    path: Path
    """Its directory."""
    algorithm: str
    """By the name that was asked for."""
    board: Board
    """The last one. Public."""
    certificate: Certificate
    """Public."""
    metrics: Mapping[str, float]
    """On held-out ratings. Not private: simulation only."""
    baselines: Mapping[str, Mapping[str, float]]
    """The same of models without privacy, where they were fitted. Not private."""
    report: Path | None
    """``report.html``, where it was drawn. It shows held-out metrics: not private."""
    _problem: Problem | None = None
    """Its ratings, where they came from no file. Private."""

    @classmethod
    def of(cls, result: RunResult, problem: Problem | None = None) -> "Run":
        """What a simulation gave, of ratings that came from no file where there is a problem."""
        made = cls._made(result.path, result.board, result.certificate, result.final)
        return replace(made, _problem=problem)

    @classmethod
    def load(cls, place: str | Path) -> "Run":
        """Open the directory of a finished run.

        Raises:
            InputError: there is none, or it is not finished.
        """
        files = RunDirectory(Path(place))
        final = next((line for line in reversed(files.lines()) if line["event"] == "final"), None)
        if final is None or not files.certificate.exists():
            raise InputError(f"{place}: no finished run is there; go on with simulate(out=..., resume=True)")
        newest = sorted(files.boards.glob("board-*.board"))[-1]
        certificate = Certificate.from_json(files.certificate.read_bytes())
        return cls._made(files.path, Board.load(newest), certificate, final)

    @classmethod
    def _made(cls, path: Path, board: Board, certificate: Certificate, final: Mapping[str, Any]) -> "Run":
        files = RunDirectory(path)
        drawn = path / "report.html"
        return cls(
            path=path,
            algorithm=json.loads(files.config.read_text(encoding="utf-8"))["algorithm"],
            board=board,
            certificate=certificate,
            metrics=dict(final["metrics"]),
            baselines=dict(final.get("baselines", {})),
            report=drawn if drawn.exists() else None,
        )

    @property
    def split(self) -> SplitTables:
        """The rows that it learnt from and was judged on, by the ids of the file. Private.

        Read and split anew, by the same coins; as tables of pyarrow, for models of other packages.

        Raises:
            InputError: the ratings cannot be read any more, or came from memory and were not kept with this run.
        """
        if self._problem is not None:
            return self._problem.tables
        config = parse_config(json.loads(RunDirectory(self.path).config.read_text(encoding="utf-8")))
        if config.data.source == IN_MEMORY:
            raise InputError(
                f"{self.path}: its ratings came from memory, and no run keeps them; take .split of what simulate() "
                "returns, or write them to a file and name that as data"
            )
        return load_problem(config).tables

    def verify(self) -> Verification:
        """Recompute its certificate, and hold its boards and its ledger against it."""
        return verify(self.path)

    def __repr__(self) -> str:
        """One line, of public facts."""
        return f"<Run {self.path}: {self.algorithm}, {self.certificate.promise}; {self.certificate.verdict}>"

    def _repr_html_(self) -> str:
        """A table of public facts, for a notebook."""
        rows = [
            ("algorithm", self.algorithm),
            ("promise", self.certificate.promise),
            ("data", self.certificate.dataset),
            ("board", f"version {self.board.version}, {self.board.catalogue.n_items} items"),
            ("directory", str(self.path)),
            ("report", "none" if self.report is None else str(self.report)),
            ("held-out metrics", "in .metrics and the report; not private, for simulations only"),
        ]
        return table_html("Run", self.certificate.verdict, rows)
