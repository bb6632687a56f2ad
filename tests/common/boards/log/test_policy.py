"""Policies of witnesses: what is read, and how many of them may lie."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedboard.common.boards.log.checkpoints import Checkpoint
from fedboard.common.boards.log.note_keys import NoteKey
from fedboard.common.boards.log.notes import Kind, Note, NoteError
from fedboard.common.boards.log.policy import Group, Witness, WitnessPolicy, most_of

LOG = NoteKey.generate("boards.example/films", Kind.NOTE)
KEYS = [NoteKey.generate(f"w.example/{number}", Kind.COSIGNATURE) for number in range(4)]
WITNESSES = tuple(Witness(f"w{n}", key.public, f"http://w{n}.example") for n, key in enumerate(KEYS))
LINES = [f"witness {one.name} {one.key}" for one in WITNESSES]


def cosigned(*numbers: int, log: NoteKey = LOG) -> Note:
    text = Checkpoint(LOG.public.name, 1, bytes(32)).text
    return Note(text, (log.sign(text), *(KEYS[n].cosign(text) for n in numbers)))


@pytest.mark.parametrize(
    ("least", "of", "bears"), [(1, 1, 0), (2, 2, 1), (2, 3, 0), (3, 3, 2), (3, 4, 1), (4, 4, 3)]
)
def test_how_many_witnesses_may_lie(least: int, of: int, bears: int) -> None:
    assert most_of(LOG.public, WITNESSES[:of], least=least).bears == bears


@pytest.mark.parametrize(("least", "of"), [(1, 2), (1, 3), (2, 4), (1, 4)])
def test_a_policy_that_two_logs_could_meet_is_refused(least: int, of: int) -> None:
    with pytest.raises(NoteError, match="more than half"):
        most_of(LOG.public, WITNESSES[:of], least=least)


TREES = st.recursive(
    st.just(None),
    lambda inner: st.tuples(st.integers(1, 4), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=5,
)


@given(TREES)
def test_the_overlap_is_the_least_that_any_two_sufficient_sets_share(tree: object) -> None:
    """Against all pairs of sets."""
    names: list[str] = []

    def built(node: object) -> Group | str:
        if not isinstance(node, tuple):
            names.append(f"w{len(names)}")
            return names[-1]
        members = tuple(built(one) for one in node[1])
        return Group(min(node[0], len(members)), members)

    found = built(tree)
    group = Group(1, (found,)) if isinstance(found, str) else found
    subsets = [frozenset(one) for size in range(len(names) + 1) for one in combinations(names, size)]
    enough = [one for one in subsets if group.is_met(one)]
    assert group.overlap == min(len(one & other) for one in enough for other in enough)


def test_a_checkpoint_needs_its_log_and_enough_witnesses() -> None:
    policy = most_of(LOG.public, WITNESSES, least=3)

    assert policy.suffices(cosigned(0, 1, 3))
    assert not policy.suffices(cosigned(0, 1))
    assert not policy.suffices(Note(cosigned().text, cosigned(0, 1, 2).signatures[1:]))  # no log
    assert not policy.suffices(cosigned(0, 1, 2, log=NoteKey.generate(LOG.public.name, Kind.NOTE)))
    twice = cosigned(0, 1).signatures + cosigned(0).signatures[1:]
    assert not policy.suffices(Note(cosigned().text, twice))
    other = Checkpoint("boards.example/books", 1, bytes(32)).text
    assert not policy.suffices(Note(other, (LOG.sign(other), *(key.cosign(other) for key in KEYS))))


def test_what_is_written_is_read_again() -> None:
    text = "\n".join(
        [
            f"log {LOG.public}",
            "# mine",
            *LINES,
            "group a all w0 w1",
            "group b 1 w2",
            "group c 2 a b",
            "quorum c",
        ]
    )
    policy = WitnessPolicy.parse(text)

    assert policy.bears == 2
    assert WitnessPolicy.parse(policy.text).quorum == policy.quorum
    assert WitnessPolicy.parse(text.replace(" ", "\t ")).quorum == policy.quorum


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("log ", "# "), "name one log"),
        (lambda text: f"{text}\nlog {NoteKey.generate('other', Kind.NOTE).public}", "name one log"),
        (lambda text: text.replace("quorum q", ""), "a quorum is missing"),
        (lambda text: text.replace("quorum q", "quorum none"), "a quorum is missing"),
        (lambda text: f"{text}\nquorum q", "second quorum"),
        (lambda text: text.replace("w3\n", "w7\n"), "line 6: w7 is no witness"),
        (lambda text: text.replace(" 3 w0", " 5 w0"), r"in \[1, 4\]"),
        (lambda text: text.replace(" 3 w0", " 0 w0"), r"in \[1, 4\]"),
        (lambda text: text.replace(" 3 w0", " any w0"), "more than half"),
        (lambda text: text.replace("w3\n", "w0\n"), "in a group already"),
        (lambda text: text.replace("witness w1", "witness w0"), "taken"),
        (lambda text: text.replace(str(KEYS[1].public), str(KEYS[0].public)), "another witness"),
        (lambda text: text.replace(str(KEYS[1].public), str(LOG.public)), "not a witness's key"),
        (lambda text: f"{text}\nwitnes x", "has lines"),
        (lambda text: text.replace("quorum", "quo\0rum"), "control"),
    ],
)
def test_what_is_no_policy_is_refused_with_its_line(change: object, words: str) -> None:
    text = "\n".join([f"log {LOG.public}", *LINES, "group q 3 w0 w1 w2 w3\nquorum q"])
    assert WitnessPolicy.parse(text).bears == 1

    with pytest.raises(NoteError, match=words):
        WitnessPolicy.parse(change(text))
