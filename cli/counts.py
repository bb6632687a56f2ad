"""How many of something a command takes: beyond these limits it would run for hours, or fill the memory."""

from click import IntRange

from fedboard.common.checks import MOST_WORKERS

RELEASES = IntRange(1, 10_000)
"""Releases that are accounted together: some 20 seconds by loss distributions."""
WORKERS = IntRange(1, MOST_WORKERS)
"""Processes, or runs at the same time."""
REPETITIONS = IntRange(1, 10_000)
"""Games, seeds of a figure, trials of a search."""
FOLDS = IntRange(2, 1_000)
"""Parts of a k-fold split, each a run of its own."""
SHOWN = IntRange(1, 100_000)
"""Items on a screen."""
PEOPLE = IntRange(1, 1_000_000_000)
"""Users or clients that are counted, and not simulated."""
