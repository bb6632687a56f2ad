"""Runs on the same users add up: one account, booked in before each run's own ledger."""

import math
import os
import sqlite3
from contextlib import ExitStack
from multiprocessing import get_context

import pytest

from fedboard.common.errors import BudgetExceededError, InputError, PrivacyError, StorageError
from fedboard.common.privacy.accounting.exact import compose, epsilon_by_library, epsilon_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.ledger.members import CLOSED
from fedboard.common.privacy.ledger.population import Population

ALL = Budget(epsilon=4.5, delta=1e-6, adjacency=Adjacency.ADD_REMOVE)
ROOMY = Budget(epsilon=20.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
PLAN = {"a": 2.0, "b": 2.0}  # epsilon 3.31 at delta 1e-6; two such plans 4.89


@pytest.fixture
def population(tmp_path):
    with Population.create(tmp_path / "population.ledger", ALL) as opened:
        yield opened


@pytest.fixture
def closing():
    with ExitStack() as stack:
        yield stack.enter_context


@pytest.fixture
def start(tmp_path, population, closing):
    """Create the ledger of a run, roomy enough by itself."""

    def started(name, *, plan=None, lineage=None, account=None, budget=ROOMY):
        folder = tmp_path / name
        folder.mkdir()
        path, account = folder / "ledger.sqlite", account or population
        return closing(Ledger.create(path, budget, run=name, plan=plan, population=account, lineage=lineage))

    return started


def reopened(tmp_path, name, population):
    return Ledger.open(tmp_path / name / "ledger.sqlite", population=population)


def edit(path, statement, *values):
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()


def test_two_runs_on_the_same_users_add_up_exactly(start, population, make_event):
    first, second = start("first"), start("second")
    first.book(make_event(name="a", noise_multiplier=2.0))
    second.book(make_event(name="a", noise_multiplier=3.0))

    total = second.population_total()

    assert total.spent == epsilon_of(1e-6, mu=compose([2.0, 3.0]))
    assert first.spent().epsilon == epsilon_of(1e-5, mu=compose([2.0]))
    assert (total.runs, total.releases, total.private) == (2, 2, True)
    assert total.lineage_spent == epsilon_of(1e-6, mu=compose([3.0]))
    alone = epsilon_of(1e-6, mu=0.5) + epsilon_of(1e-6, mu=1 / 3)
    assert total.spent < alone  # composed, not added


def test_the_whole_plan_is_reserved_when_a_run_starts(start, population, tmp_path):
    start("first", plan=PLAN)
    reserved = epsilon_of(1e-6, mu=compose(PLAN.values()))

    assert population.cost(reserved=True) == reserved
    assert population.cost(reserved=False) == 0.0
    with pytest.raises(
        BudgetExceededError, match=r"whole plan \(with all runs.*spent epsilon 3\.307.*4\.886.*is 4\.5"
    ):
        start("second", plan=PLAN)
    assert len(population.members()) == 1
    assert not (tmp_path / "second" / "ledger.sqlite").exists()


def test_what_is_reserved_can_be_booked_to_the_end_and_nothing_else(start, population, make_event):
    run = start("first", plan=PLAN)

    with pytest.raises(PrivacyError, match="run plan"):
        run.book(make_event(name="c", noise_multiplier=2.0))
    with pytest.raises(PrivacyError, match="run plan"):
        run.book(make_event(name="a", noise_multiplier=1.9))
    for name in PLAN:
        run.book(make_event(name=name, noise_multiplier=2.0))

    assert population.cost(reserved=False) == population.cost(reserved=True)


def test_without_a_plan_each_release_is_checked_against_what_others_left(start, population, make_event):
    start("first", plan=PLAN)
    run = start("second")

    with pytest.raises(BudgetExceededError, match=r"'a' \(with all runs on this population\)"):
        run.book(make_event(name="a", noise_multiplier=1.5))

    assert run.events() == []
    assert population.cost(reserved=False) == 0.0
    run.book(make_event(name="a", noise_multiplier=20.0))


def test_what_a_run_gives_back_is_free_for_others_and_lost_to_it(start, population, make_event):
    run = start("first", plan=PLAN)
    run.book(make_event(name="a", noise_multiplier=2.0))

    run.finish()
    run.finish()

    assert population.cost(reserved=True) == epsilon_of(1e-6, mu=0.5)
    with pytest.raises(PrivacyError, match="given back"):
        run.book(make_event(name="b", noise_multiplier=2.0))
    start("second", plan={"a": 2.0})


def test_a_lineage_has_a_limit_of_its_own(tmp_path, start, make_event):
    with Population.create(tmp_path / "limited.ledger", ALL, lineage_epsilon=4.0) as limited:
        founder = start("founder", plan=PLAN, account=limited)
        founder.book(make_event(name="a", noise_multiplier=2.0))
        lineage = limited.members()[0].lineage

        with pytest.raises(BudgetExceededError, match=r"of its lineage.*budget is 4"):
            start("heir", plan={"a": 2.0}, lineage=lineage, account=limited)
        heir = start("second heir", plan={"a": 8.0}, lineage=lineage, account=limited)
        start("another board", plan={"a": 3.0}, account=limited)
        heir.book(make_event(name="a", noise_multiplier=8.0))

        total = heir.population_total()
        assert total.lineage == lineage
        assert total.lineage_spent == epsilon_of(1e-6, mu=compose([2.0, 8.0]))
        assert total.lineage_budget == 4.0
        with pytest.raises(InputError, match="no lineage"):
            start("lost", lineage="nobody", account=limited)


def test_the_population_is_told_first_and_the_run_catches_up(
    tmp_path, start, population, make_event, monkeypatch
):
    run, event = start("first", plan=PLAN), make_event(name="a", noise_multiplier=2.0)
    monkeypatch.setattr(run._chain, "_add", _full)
    with pytest.raises(StorageError):
        run.book(event)

    assert run.events() == []
    assert population.cost(reserved=False) == epsilon_of(1e-6, mu=0.5)
    run.close()
    with reopened(tmp_path, "first", population) as again:
        assert again.events() == [event]
        with pytest.raises(PrivacyError, match="cannot be drawn again"):
            again.book(event, reissue=True)


def _full(*arguments):
    raise StorageError("full")


def test_a_run_whose_releases_the_account_lacks_is_not_continued(
    tmp_path, start, population, closing, make_event
):
    run = start("first", plan=PLAN)
    for name in PLAN:
        run.book(make_event(name=name, noise_multiplier=2.0))
    run.close()
    population.close()
    edit(tmp_path / "population.ledger", "DELETE FROM events WHERE name = 'b'")

    rolled_back = closing(Population.open(tmp_path / "population.ledger"))
    with pytest.raises(PrivacyError, match="does not hold release 'b'"):
        reopened(tmp_path, "first", rolled_back)


def test_a_run_does_not_take_over_more_than_its_own_budget_bears(tmp_path, start, population, make_event):
    run = start("first", budget=Budget(epsilon=1.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE))
    population.book(run.id, [make_event(name="a", noise_multiplier=2.0)])  # epsilon 2.0: the account has room
    run.close()

    with pytest.raises(BudgetExceededError, match="the budget is 1"):
        reopened(tmp_path, "first", population).close()
    with Ledger.open(tmp_path / "first" / "ledger.sqlite", read_only=True) as reader:
        assert reader.events() == []


def test_a_run_is_bound_to_its_population(tmp_path, start, population, closing, make_event):
    start("first").close()
    Ledger.create(tmp_path / "alone.sqlite", ALL).close()
    other = closing(Population.create(tmp_path / "other.ledger", ALL))

    with pytest.raises(PrivacyError, match="must be the same"):
        reopened(tmp_path, "first", None)
    with pytest.raises(PrivacyError, match="must be the same"):
        reopened(tmp_path, "first", other)
    with pytest.raises(PrivacyError, match="no population"):
        Ledger.open(tmp_path / "alone.sqlite", population=population)
    with reopened(tmp_path, "first", population) as again:
        again.book(make_event())
    with Ledger.open(tmp_path / "first" / "ledger.sqlite", read_only=True) as reader:
        assert len(reader.events()) == 1


def test_a_file_of_the_wrong_kind_is_named(tmp_path, start, population):
    start("first").close()

    with pytest.raises(InputError, match="ledger of a population, not of a run"):
        Ledger.open(tmp_path / "population.ledger")
    with pytest.raises(InputError, match="ledger of a run, not of a population"):
        Population.open(tmp_path / "first" / "ledger.sqlite")


def test_another_adjacency_is_refused(start, population, make_event):
    run = start("first", budget=Budget(epsilon=5.0, delta=1e-5, adjacency=Adjacency.REPLACE))

    with pytest.raises(PrivacyError, match="must be the same"):
        run.book(make_event(adjacency=Adjacency.REPLACE))

    assert run.events() == []


@pytest.mark.slow
def test_an_account_counts_sampled_rounds_in_full_since_later_runs_may_be_chosen(
    tmp_path, start, population, make_event
):
    """A curve of loss distributions would be a filter that somebody who has seen the first board can beat."""
    sampled = {"kind": "poisson", "probability": 0.2, "round": "round-1"}
    for name in ("first", "second"):
        start(name).book(make_event(name="a", noise_multiplier=3.0, participation=sampled))

    fixed_beforehand = epsilon_by_library(
        [
            make_event(name=name, noise_multiplier=3.0, participation={**sampled, "round": name})
            for name in ("a", "b")
        ],
        1e-6,
    )
    spent = population.cost(reserved=False)
    assert spent == pytest.approx(epsilon_of(1e-6, mu=math.sqrt(2.0) / 3.0))
    assert spent > 1.5 * fixed_beforehand


def test_a_release_cannot_take_the_name_of_a_record(start, make_event):
    with pytest.raises(PrivacyError, match="name of a record"):
        start("first").book(make_event(name=CLOSED, noise_multiplier=4.0))


def test_sampling_may_use_a_plan_for_everybody_but_not_the_other_way_round(start, make_event):
    sampled = {"kind": "poisson", "probability": 0.2, "round": "round-1"}
    for_all, counting_on_it = (
        start("first", plan={"a": 2.0}),
        start("second", plan={"a": {"noise_multiplier": 2.0, "participation": sampled}}),
    )

    for_all.book(make_event(name="a", noise_multiplier=2.0, participation=sampled))
    with pytest.raises(PrivacyError, match="run plan"):
        counting_on_it.book(make_event(name="a", noise_multiplier=2.0))
    larger = {**sampled, "probability": 0.3}
    with pytest.raises(PrivacyError, match="run plan"):
        counting_on_it.book(make_event(name="a", noise_multiplier=2.0, participation=larger))
    counting_on_it.book(make_event(name="a", noise_multiplier=2.0, participation=sampled))


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events WHERE seq = 2",
        "UPDATE events SET run = 'other' WHERE seq = 3",
        "UPDATE events SET event = replace(event, '\"a\":2.0', '\"a\":9.0') WHERE seq = 1",
        "UPDATE meta SET header = replace(header, '\"epsilon\":4.5', '\"epsilon\":50.0')",
        "UPDATE meta SET header = replace(header, '\"lineage_epsilon\":null', '\"lineage_epsilon\":9.0')",
    ],
)
def test_any_edit_of_the_account_is_noticed(tmp_path, start, population, make_event, statement):
    run = start("first", plan=PLAN)
    for name in PLAN:
        run.book(make_event(name=name, noise_multiplier=2.0))
    population.close()

    edit(tmp_path / "population.ledger", statement)

    with pytest.raises(PrivacyError, match="tampered"):
        Population.open(tmp_path / "population.ledger")


def test_a_total_can_be_recomputed_at_a_published_head(start, population, make_event):
    first, second = start("first", plan=PLAN), start("second")
    first.book(make_event(name="a", noise_multiplier=2.0))
    published = first.population_total()
    second.book(make_event(name="a", noise_multiplier=20.0))
    first.book(make_event(name="b", noise_multiplier=2.0))

    again = population.total(population.members()[0].run, head=published.head)

    assert again == published
    with pytest.raises(PrivacyError, match="published head"):
        population.total(population.members()[0].run, head="0" * 64)


@pytest.mark.parametrize("limit", [0.0, -1.0, 6.0, float("nan")])
def test_a_limit_for_lineages_out_of_range_is_refused(tmp_path, limit):
    with pytest.raises(PrivacyError, match="lineage"):
        Population.create(tmp_path / "limited.ledger", ALL, lineage_epsilon=limit)


def _race(path, name, event, gate, pipe, *, plan):
    gate.wait()
    booked = 0
    try:
        with Population.open(path) as population:
            own = Budget(epsilon=20.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
            run = Ledger.create(
                path.parent / f"{name}.sqlite", own, run=name, plan=plan, population=population
            )
            for number in range(len(plan) if plan else 40):
                run.book({**event, "name": f"items-{number}"})
                booked += 1
    except BudgetExceededError:
        pass
    except BaseException as error:
        booked = repr(error)
    pipe.send(booked)
    os._exit(0)


def race(path, event, *, plan, n_runs):
    context = get_context("fork")
    gate, ends = context.Event(), [context.Pipe(duplex=False) for _ in range(n_runs)]
    children = [
        context.Process(target=_race, args=(path, f"run-{n}", event, gate, sender), kwargs={"plan": plan})
        for n, (_, sender) in enumerate(ends)
    ]
    for child in children:
        child.start()
    gate.set()
    booked = [receiver.recv() for receiver, _ in ends]
    for child in children:
        child.join()
    assert all(isinstance(count, int) for count in booked), booked
    return booked


def test_runs_that_race_for_the_last_of_the_budget_never_exceed_it(tmp_path, make_event):
    path, event = tmp_path / "population.ledger", make_event(noise_multiplier=5.0)
    Population.create(path, ALL).close()
    room = max(n for n in range(1, 200) if epsilon_of(1e-6, mu=compose([5.0] * n)) <= 4.5)
    assert 10 < room < 40

    booked = race(path, event, plan=None, n_runs=2)

    assert sum(booked) == room
    with Population.open(path) as population:
        assert population.cost(reserved=True) == epsilon_of(1e-6, mu=compose([5.0] * room)) <= 4.5


@pytest.mark.slow
def test_of_runs_that_race_to_start_those_that_did_can_finish(tmp_path, make_event):
    path, event = tmp_path / "population.ledger", make_event(noise_multiplier=5.0)
    Population.create(path, ALL).close()
    plan = {f"items-{n}": 5.0 for n in range(7)}

    booked = race(path, event, plan=plan, n_runs=4)

    assert sorted(booked) == [0, 7, 7, 7]
    with Population.open(path) as population:
        assert population.cost(reserved=True) <= 4.5


def test_a_forked_child_cannot_book_in_the_account(start, population, make_event):
    run = start("first")
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def book(pipe):
        try:
            population.book(run._chain.id, [make_event()])
        except PrivacyError as error:
            pipe.send(str(error))
        os._exit(0)

    child = context.Process(target=book, args=(sender,))
    child.start()
    message = receiver.recv()
    child.join()

    assert "process that opened it" in message
    assert population.cost(reserved=True) == 0.0


def test_a_run_without_a_plan_can_have_its_whole_budget_kept(
    tmp_path, start, population, make_event, closing
):
    (tmp_path / "open").mkdir()
    budget = Budget(epsilon=4.0, delta=1e-6, adjacency=Adjacency.ADD_REMOVE)
    path = tmp_path / "open" / "ledger.sqlite"
    ledger = closing(Ledger.create(path, budget, run="open", population=population, reserve=True))

    before = population.cost(reserved=True)
    with pytest.raises(BudgetExceededError):
        start("other", plan=PLAN)
    ledger.book(make_event(name="a", noise_multiplier=2.0))
    between = population.cost(reserved=True)
    ledger.book(make_event(name="b", noise_multiplier=3.0))  # follows from a: no plan could name it

    assert before == pytest.approx(4.0, rel=1e-9)
    assert between == population.cost(reserved=True) == pytest.approx(4.0, rel=1e-9)
    assert population.cost(reserved=False) == epsilon_of(1e-6, mu=compose([2.0, 3.0]))
    with pytest.raises(BudgetExceededError, match="the budget is 4"):
        ledger.book(make_event(name="c", noise_multiplier=1.0))
    ledger.close()
    again = closing(Ledger.open(path, population=population))  # joins as it did
    again.finish()
    assert population.cost(reserved=True) == population.cost(reserved=False)
    start("later", plan={"a": 4.0})


def test_a_run_that_reserved_is_not_taken_for_one_that_did_not(population):
    kept = Budget(epsilon=4.0, delta=1e-6, adjacency=Adjacency.ADD_REMOVE)
    population.join("run", name="run", plan=None, reserve=kept)

    population.join("run", name="run", plan=None, reserve=kept)
    with pytest.raises(PrivacyError, match="joined this population with another plan"):
        population.join("run", name="run", plan=None)
