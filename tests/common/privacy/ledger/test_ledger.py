import copy
import os
import pickle
import sqlite3
from multiprocessing import get_context

import pytest

from fedboard.common.errors import BudgetExceededError, InputError, PrivacyError
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.accounting.exact import compose, epsilon_by_library, epsilon_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise

LAPLACE = {
    "mechanism": "laplace",
    "name": "mean",
    "covers": "mean rating",
    "adjacency": "add-remove",
    "noise_multiplier": 30.0,
    "l1_sensitivity": 0.5,
    "noise_scale": 15.0,
}


def edit(path, statement, *values):
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()


def filled(path, budget, make_event, n_releases=4):
    with Ledger.create(path, budget) as ledger:
        for number in range(n_releases):
            ledger.book(make_event(name=f"items-{number}"))
        return ledger.head


def test_what_is_spent_is_the_exact_composition(ledger, make_event):
    multipliers = [9.0, 11.0, 13.0]
    for z in multipliers:
        ledger.book(make_event(name=f"items-{z}", noise_multiplier=z))

    spent = ledger.spent()

    assert spent.epsilon == epsilon_of(1e-5, mu=compose(multipliers))
    assert (spent.delta, spent.adjacency, spent.unit) == (1e-5, "add-remove", "user")


def test_a_new_ledger_has_spent_nothing(ledger):
    assert ledger.spent().epsilon == 0.0
    assert ledger.events() == []
    ledger.verify()


def test_calibrated_releases_fit_the_budget_to_the_last_and_one_more_does_not(ledger, make_event):
    shares = {f"items-{k}": (k + 1) / 55 for k in range(10)}
    for name, z in noise_multipliers(5.0, 1e-5, shares).items():
        ledger.book(make_event(name=name, noise_multiplier=z))

    assert ledger.spent().epsilon == pytest.approx(5.0, rel=1e-9)
    with pytest.raises(BudgetExceededError):
        ledger.book(make_event(name="one more", noise_multiplier=1e4))


def test_an_overspend_is_refused_with_its_numbers_and_nothing_is_written(tmp_path, budget, make_event):
    path = tmp_path / "ledger.sqlite"
    with Ledger.create(path, budget) as ledger:
        ledger.book(make_event(name="first", noise_multiplier=1.0))
        head = ledger.head

        with pytest.raises(BudgetExceededError, match=r"'second'.*spent epsilon 4\.377.*but the budget is 5"):
            ledger.book(make_event(name="second", noise_multiplier=1.0))

        assert ledger.head == head
        assert len(ledger.events()) == 1
    with Ledger.open(path) as again:
        assert [event["name"] for event in again.events()] == ["first"]
        assert again.spent().epsilon == pytest.approx(epsilon_of(1e-5, mu=1.0))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("noise_multiplier", 0.0),
        ("noise_multiplier", float("inf")),
        ("noise_multiplier", float("nan")),
        ("noise_multiplier", 1e9),
        ("noise_stddev", 1e9),
        ("l2_sensitivity", 1.0),
        ("l2_bound", None),
        ("l2_bound", 1),
        ("adjacency", "unknown"),
        ("mechanism", "magic"),
        ("release_shift", 3),
    ],
)
def test_an_event_that_is_not_sound_is_refused_and_not_written(ledger, make_event, field, value):
    with pytest.raises(PrivacyError, match="refused"):
        ledger.book({**make_event(), field: value})

    assert ledger.events() == []


@pytest.mark.parametrize(
    "field", ["noise_multiplier", "l2_bound", "l2_sensitivity", "noise_stddev", "covers"]
)
def test_an_event_that_lacks_a_field_is_refused(ledger, make_event, field):
    event = make_event()
    del event[field]

    with pytest.raises(PrivacyError, match=field):
        ledger.book(event)


def test_another_adjacency_than_the_budgets_is_refused(ledger, make_event):
    with pytest.raises(PrivacyError, match="adjacency replace"):
        ledger.book(make_event(adjacency=Adjacency.REPLACE))


def test_a_name_is_booked_once(ledger, make_event):
    ledger.book(make_event())

    with pytest.raises(PrivacyError, match="booked already"):
        ledger.book(make_event())
    with pytest.raises(PrivacyError, match="cannot be drawn again"):
        ledger.book(make_event(), reissue=True)


def test_only_the_identical_seeded_release_can_be_reissued(ledger, make_release):
    booked = make_release().book(ledger, SeededNoise(1))

    again = make_release().book(ledger, SeededNoise(1), reissue=True)

    assert again.receipt == booked.receipt
    assert len(ledger.events()) == 1
    for release, noise in (
        (make_release(), SeededNoise(2)),
        (make_release(), SecureNoise()),
        (make_release(noise_multiplier=99.0), SeededNoise(1)),
    ):
        with pytest.raises(PrivacyError, match="booked already"):
            release.book(ledger, noise, reissue=True)


def test_reopening_continues_the_chain_the_spend_and_the_names(tmp_path, budget, make_event):
    path = tmp_path / "ledger.sqlite"
    filled(path, budget, make_event)

    with Ledger.open(path) as ledger:
        ledger.book(make_event(name="later"))
        with pytest.raises(PrivacyError, match="booked already"):
            ledger.book(make_event(name="items-0"))
        expected = compose([20.0] * 5)

        assert ledger.budget == budget
        assert ledger.spent().epsilon == epsilon_of(1e-5, mu=expected)
        ledger.verify()


def test_what_another_run_booked_counts_and_its_names_do_not(tmp_path, budget, make_event):
    path = tmp_path / "ledger.sqlite"
    with Ledger.create(path, budget) as ledger:
        ledger.book(make_event(name="items-0", noise_multiplier=1.0))

    with Ledger.open(path, run="second") as ledger:
        assert ledger.spent().epsilon == epsilon_of(1e-5, mu=1.0)
        with pytest.raises(BudgetExceededError, match=r"'items-0'.*spent epsilon 4\.377"):
            ledger.book(make_event(name="items-0", noise_multiplier=1.0))  # alone it would cost 4.377 of 5
        ledger.book(make_event(name="items-0"))
        assert ledger.spent().epsilon == epsilon_of(1e-5, mu=compose([1.0, 20.0]))


def test_a_receipt_proves_the_event(ledger, make_event):
    event = make_event()

    receipt = ledger.book(event)

    assert (receipt.seq, receipt.name, receipt.event_digest) == (1, "items-1", digest(event))
    assert receipt.hash == ledger.head


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("UPDATE events SET event = replace(event, '20.0', '21.0') WHERE seq = 2", ()),
        ("UPDATE events SET event = 'no JSON' WHERE seq = 2", ()),
        ("UPDATE events SET name = 'other' WHERE seq = 3", ()),
        ("UPDATE events SET run = 'other' WHERE seq = 3", ()),
        ("UPDATE events SET time = '2001-01-01T00:00:00+00:00' WHERE seq = 1", ()),
        ("UPDATE events SET hash = ? WHERE seq = 4", ("0" * 64,)),
        ("UPDATE events SET previous = ? WHERE seq = 1", ("0" * 64,)),
        ("DELETE FROM events WHERE seq = 2", ()),
        ("DELETE FROM events WHERE seq = 1", ()),
        ("UPDATE meta SET header = replace(header, '\"epsilon\":5.0', '\"epsilon\":50.0')", ()),
        ("UPDATE meta SET header = replace(header, '\"plan\":null', '\"plan\":{}')", ()),
        ("INSERT INTO meta SELECT header FROM meta", ()),
        ("UPDATE events SET seq = seq + 10", ()),
        ("UPDATE events SET seq = CASE seq WHEN 2 THEN -3 ELSE seq END", ()),
        ("UPDATE events SET event = replace(event, '{', '{ ')", ()),
        (
            "INSERT INTO events SELECT 5, time, run || '2', name, event, hash, hash FROM events WHERE seq = 4",
            (),
        ),
        (
            "CREATE TRIGGER forget AFTER INSERT ON events BEGIN DELETE FROM events WHERE seq = new.seq; END",
            (),
        ),
    ],
)
def test_any_edit_of_the_file_is_noticed(tmp_path, budget, make_event, statement, values):
    path = tmp_path / "ledger.sqlite"
    filled(path, budget, make_event)

    edit(path, statement, *values)

    with pytest.raises(PrivacyError, match="tampered"):
        Ledger.open(path)


def test_rows_cut_off_at_the_end_show_against_a_published_head(tmp_path, budget, make_event):
    path = tmp_path / "ledger.sqlite"
    head = filled(path, budget, make_event)
    with Ledger.open(path) as ledger:
        ledger.verify(published_head=head)

    edit(path, "DELETE FROM events WHERE seq = 4")

    with Ledger.open(path) as ledger, pytest.raises(PrivacyError, match="published head"):
        ledger.verify(published_head=head)


def test_a_second_writer_is_refused_until_the_first_closes(tmp_path, budget, make_event):
    path = tmp_path / "ledger.sqlite"
    with Ledger.create(path, budget):
        with pytest.raises(PrivacyError, match=rf"ledger\.sqlite: another process is.*process {os.getpid()}"):
            Ledger.open(path)
        with Ledger.open(path, read_only=True) as reader:
            assert reader.events() == []
    with Ledger.open(path) as ledger:
        ledger.book(make_event())


def test_several_events_are_booked_together_or_not_at_all(ledger, make_event):
    first, second = make_event(name="a"), make_event(name="b")
    receipts = ledger.book_all([first, second])
    dear = [make_event(name="c"), make_event(name="d", noise_multiplier=0.5)]

    with pytest.raises(BudgetExceededError, match="'c', 'd'"):
        ledger.book_all(dear)
    with pytest.raises(PrivacyError, match="booked already"):
        ledger.book_all([make_event(name="e"), first])
    with pytest.raises(PrivacyError, match="share a name"):
        ledger.book_all([make_event(name="e"), make_event(name="e")])

    assert [receipt.name for receipt in receipts] == ["a", "b"]
    assert receipts[1].hash == ledger.head
    assert ledger.events() == [first, second]


def test_an_opened_ledger_cannot_be_pickled_or_copied(ledger):
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivacyError, match="cannot be pickled or copied"):
            duplicate(ledger)


def test_a_ledger_that_is_replaced_while_it_is_open_books_nothing(tmp_path, budget, make_event):
    path, other = tmp_path / "ledger.sqlite", tmp_path / "other.sqlite"
    Ledger.create(other, budget).close()
    with Ledger.create(path, budget) as ledger:
        os.replace(other, path)

        with pytest.raises(PrivacyError, match="moved or replaced"):
            ledger.book(make_event())


def test_rows_that_vanish_while_it_is_open_are_noticed(tmp_path, budget, make_event):
    path = tmp_path / "ledger.sqlite"
    with Ledger.create(path, budget) as ledger:
        ledger.book(make_event())
        edit(path, "DELETE FROM events")

        with pytest.raises(PrivacyError, match="removed while it was open"):
            ledger.book(make_event(name="second"))


def test_a_reader_sees_what_is_booked_but_cannot_book(tmp_path, budget, make_event):
    path = tmp_path / "ledger.sqlite"
    with Ledger.create(path, budget) as writer:
        writer.book(make_event())
        with Ledger.open(path, read_only=True) as reader:
            assert reader.spent() == writer.spent()
            with pytest.raises(PrivacyError, match="read only"):
                reader.book(make_event(name="other"))


def _book_in_child(ledger, event, pipe):
    try:
        ledger.book(event)
    except PrivacyError as error:
        pipe.send(str(error))
    pipe.close()


def test_a_forked_child_cannot_book(ledger, make_event):
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_book_in_child, args=(ledger, make_event(), sender))

    child.start()
    message = receiver.recv()
    child.join()

    assert "process that opened it" in message
    assert ledger.events() == []


def _book_and_die(path, budget, event):
    Ledger.create(path, budget).book(event)
    os._exit(9)


def test_what_was_booked_survives_a_killed_process(tmp_path, budget, make_event):
    path = tmp_path / "ledger.sqlite"
    child = get_context("fork").Process(target=_book_and_die, args=(path, budget, make_event()))

    child.start()
    child.join()

    with Ledger.open(path) as ledger:
        assert [event["name"] for event in ledger.events()] == ["items-1"]


def test_a_plan_is_checked_as_a_whole_before_anything_is_booked(tmp_path, budget):
    with pytest.raises(BudgetExceededError, match="whole plan"):
        Ledger.create(tmp_path / "ledger.sqlite", budget, plan={"a": 1.0, "b": 1.0})

    assert not (tmp_path / "ledger.sqlite").exists()


def test_with_a_plan_only_planned_releases_with_enough_noise_are_booked(tmp_path, budget, make_event):
    path = tmp_path / "ledger.sqlite"
    Ledger.create(path, budget, plan={"a": 20.0, "b": 20.0}).close()

    with Ledger.open(path) as ledger:
        ledger.book(make_event(name="a"))
        for event in (make_event(name="c"), make_event(name="b", noise_multiplier=19.0)):
            with pytest.raises(PrivacyError, match="run plan"):
                ledger.book(event)
        ledger.book(make_event(name="b", noise_multiplier=25.0))


SAMPLED = {"kind": "poisson", "probability": 0.2, "round": "round-1"}


@pytest.mark.parametrize("planned", [20.0, {"noise_multiplier": 20.0, "participation": SAMPLED}])
def test_a_sampled_release_with_less_noise_than_planned_is_refused(tmp_path, budget, make_event, planned):
    with Ledger.create(tmp_path / "ledger.sqlite", budget, plan={"items-1": planned}) as ledger:
        with pytest.raises(PrivacyError, match="run plan"):
            ledger.book(make_event(noise_multiplier=19.0, participation=SAMPLED))

        ledger.book(make_event(participation=SAMPLED))


def test_a_mixed_ledger_is_an_upper_bound_of_the_library(ledger, make_event):
    for number, z in enumerate((5.0, 7.0, 9.0)):
        ledger.book(make_event(name=f"items-{number}", noise_multiplier=z))
    gaussians = ledger.events()
    only_gaussians = ledger.spent().epsilon
    ledger.book(LAPLACE)

    by_distributions = epsilon_by_library(ledger.events(), 1e-5)

    assert epsilon_by_library(gaussians, 1e-5) == pytest.approx(only_gaussians, rel=1e-4)
    assert only_gaussians < by_distributions <= ledger.spent().epsilon
    assert ledger.spent().epsilon < 1.02 * by_distributions
    assert by_distributions < epsilon_by_library(ledger.events(), 1e-5, accountant="rdp")


def test_files_that_are_no_ledger_are_named(tmp_path, budget):
    wrong = tmp_path / "wrong.sqlite"
    wrong.write_text("this is not a database, and long enough to be read as one" * 20)
    empty = tmp_path / "empty.sqlite"
    empty.touch()

    for path in (wrong, empty):
        with pytest.raises(InputError, match=r"not a ledger"):
            Ledger.open(path)
        with pytest.raises(InputError, match=r"there already"):
            Ledger.create(path, budget)
    with pytest.raises(InputError, match=r"no such ledger"):
        Ledger.open(tmp_path / "missing.sqlite")
    with pytest.raises(InputError, match=r"cannot be written"):
        Ledger.create(tmp_path / "no folder" / "ledger.sqlite", budget)


def test_an_unknown_format_is_refused(tmp_path, budget):
    path = tmp_path / "ledger.sqlite"
    Ledger.create(path, budget).close()
    edit(path, "UPDATE meta SET header = replace(header, '\"format\":1', '\"format\":2')")

    with pytest.raises(InputError, match="format 2"):
        Ledger.open(path)


def test_closing_twice_is_allowed_and_a_closed_ledger_books_nothing(tmp_path, budget, make_event):
    ledger = Ledger.create(tmp_path / "ledger.sqlite", budget)
    ledger.close()
    ledger.close()

    with pytest.raises(PrivacyError, match="closed"):
        ledger.book(make_event())


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": float("inf")},
        {"epsilon": float("nan")},
        {"delta": 0.0},
        {"delta": 1.0},
        {"adjacency": "none"},
    ],
)
def test_a_budget_out_of_range_is_refused(wrong):
    with pytest.raises(PrivacyError):
        Budget(**{"epsilon": 1.0, "delta": 1e-5, "adjacency": Adjacency.REPLACE, **wrong})
