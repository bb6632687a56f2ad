"""Models without any privacy, run like the private ones so that their numbers can be laid side by side."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedboard.common import kernels
from fedboard.common.errors import InputError
from fedboard.common.tasks.adadpals_config import Feedback
from fedboard.simulations import baselines
from fedboard.simulations.baselines import Predictor
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.judging import judge
from fedboard.simulations.problem import Problem, load_problem
from fedboard.simulations.run_directory import RunDirectory

NO_PRIVACY = "no privacy"
"""The label of everything that is made here."""
_DEFAULT_RANK = 8
