"""Accuracy against epsilon: every algorithm of the repository, or those named, with the spread over noise seeds.

usage: python benchmarks/accuracy/frontier.py [--data PATH|NAME ..] [--algorithms NAME ..] [--epsilon E ..]
           [--seeds N] [--variant NAME ALGORITHM KEY=VALUE ..] [--out DIR] [--json FILE]

Each run is a complete simulation with its ledger and certificate; the certificate is verified. RMSE comes from
explicit feedback, Recall@20 from implicit feedback. FILE gets ``rmse.<algorithm>.<epsilon>`` (mean over the seeds),
``rmse_std``, ``recall20``, ``recall20_std``, the same by item popularity, seconds, settings and versions; with
several data sets also ``data.<name>`` for each, the first being the one at the top. Plot and table go beside it.

With --out, finished runs are kept and an interrupted benchmark goes on; runs of other source code are run again.
A variant is an algorithm with other settings, for ablations:
    --variant no-shrinkage residual shrinkage=ridge --variant even adadpals weight_exponent=0
or, in a file for --variants, a table per variant; ``at`` holds what it changes at one epsilon:
    [no-shrinkage]
    algorithm = "residual"
    settings = { shrinkage = "ridge" }
    at = { "1" = { settings = { item_ridge = 60.0 } } }
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from accuracy.frontier_cells import folder_of, measure_all
from accuracy.frontier_plan import (
    Plan,
    Variant,
    check,
    data_sets,
    epsilon_text,
    plain_variants,
    read_variants,
    variant_of,
)
from accuracy.frontier_summary import plot, results_of, summary, table, write_json
from fedboard.common.errors import FedboardError
from fedboard.simulations.sweeps.frontier import write_frontier
from fedboard.simulations.tuning.software import source_digest

EPSILONS = ("0.5", "1", "2", "5", "10", "20")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", nargs="+", default=["synthetic"], metavar="PATH|NAME", help="ratings")
    add("--algorithms", nargs="+", default=[], metavar="NAME", help="default: all private ones")
    add(
        "--variant",
        nargs="+",
        action="append",
        default=[],
        metavar="WORD",
        help="NAME ALGORITHM KEY=VALUE ..",
    )
    add("--variants", type=Path, metavar="TOML", help="more of them")
    add("--epsilon", nargs="+", type=epsilon_text, default=list(EPSILONS), metavar="E")
    add("--seeds", type=positive, default=3, metavar="N", help="noise seeds of each setting; default 3")
    add(
        "--first-seed",
        type=int,
        default=3,
        metavar="S",
        help="default 3: shipped settings were chosen on 0 to 2",
    )
    add("--feedback", choices=("explicit", "implicit", "both"), help="default: both where the data allow")
    add(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="any key of the configuration, for all runs"
    )
    add("--no-references", action="store_true", help="leave out the models without privacy")
    add("--jobs", type=positive, default=min(2, os.cpu_count() or 1), metavar="N", help="runs at a time")
    add("--out", type=Path, metavar="DIR", help="keep the runs here; default: nowhere")
    add("--json", type=Path, metavar="FILE", help="numbers; plot and table go beside it")
    return parser.parse_args()


def positive(text: str) -> int:
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def planned(options: argparse.Namespace) -> Plan:
    named: list[Variant] = [variant_of(words) for words in options.variant]
    named += [] if options.variants is None else read_variants(options.variants)
    shipped = plain_variants(options.algorithms) if options.algorithms or not named else []
    plan = Plan(
        data=data_sets(options.data, options.feedback),
        variants=(*shipped, *named),
        epsilons=tuple(options.epsilon),
        seeds=tuple(range(options.first_seed, options.first_seed + options.seeds)),
        assignments=tuple(options.set),
        with_references=not options.no_references,
    )
    check(plan)
    return plan


def run(options: argparse.Namespace, out: Path) -> int:
    """Run, write, print; the number of runs that failed."""
    plan = planned(options)
    cells = out / source_digest()
    started = time.perf_counter()
    measured, cpu = measure_all(plan.runs(), cells, jobs=options.jobs)
    wall = time.perf_counter() - started
    done = [outcome for outcome in measured if outcome.final is not None]
    if not done:
        raise FedboardError("no run succeeded: " + "; ".join({str(outcome.error) for outcome in measured}))
    text = table(plan, measured, cpu=cpu, wall=wall)
    print(text)
    beside = options.json or out / "frontier.json"
    if options.json or options.out:
        beside.parent.mkdir(parents=True, exist_ok=True)
        write_json(beside, summary(plan, measured, cells, cpu=cpu, wall=wall))
        beside.with_suffix(".md").write_text(text, encoding="utf-8")
        plot(plan, done, [beside.with_suffix(".svg"), beside.with_suffix(".png")])
    if options.out:
        for folder, feedback in dict.fromkeys((folder_of(o.run, cells), o.run.feedback) for o in done):
            own = [outcome for outcome in done if folder_of(outcome.run, cells) == folder]
            write_frontier(results_of(own, feedback), folder)
    return len(measured) - len(done)


def main() -> None:
    """Run the cells that are missing; exit code 1 where one failed."""
    options = arguments()
    try:
        with tempfile.TemporaryDirectory(prefix="fedboard-frontier-") as nowhere:
            failed = run(options, options.out or Path(nowhere))
    except FedboardError as error:
        raise SystemExit(f"frontier: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted" + (": the same command goes on" if options.out else "")) from None
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
