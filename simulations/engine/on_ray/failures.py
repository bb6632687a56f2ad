"""What goes wrong on a cluster, in our words."""

from typing import Final

from fedboard.common.errors import FedboardError, InputError, WorkerDiedError

_ON_WITH: Final = "nothing of this round was released; go on with --resume"


def told(error: Exception) -> Exception:
    """The error to raise for what Ray raised; an error of ours as the worker raised it."""
    from ray import exceptions as of_ray

    match error:
        case of_ray.RayTaskError():
            return _of_a_task(error)
        case of_ray.OutOfMemoryError():
            return WorkerDiedError(
                f"a Ray node ran out of memory again and again; {_ON_WITH}. Give its nodes fewer CPUs, so that "
                "they do less at once, or more memory"
            )
        case of_ray.RuntimeEnvSetupError():
            return InputError(
                f"a Ray node could not take the code that is sent to it ({_first(error)}); install fedboard there "
                "and set run.carry_code = false"
            )
        case of_ray.ObjectStoreFullError() | of_ray.OutOfDiskError():
            return WorkerDiedError(
                f"a Ray node has no room left for the sums of a round ({_first(error)}); {_ON_WITH}"
            )
        case of_ray.RayError():
            return WorkerDiedError(f"the Ray cluster gave up ({_first(error)}); {_ON_WITH}")
    return error


def _of_a_task(error: Exception) -> Exception:
    """What a worker raised; other than our own sentences come with the worker's traceback."""
    cause: Exception = getattr(error, "cause", None) or error
    if isinstance(cause, FedboardError):
        return cause
    if isinstance(cause, ModuleNotFoundError):
        return InputError(
            f"a Ray node lacks the Python package {cause.name}: install what fedboard[sim] needs on every node"
        )
    if cause is not error:
        cause.add_note(f"in a Ray worker:\n{getattr(error, 'traceback_str', '')}")
    return cause


def not_joined(error: Exception, address: str) -> InputError:
    """Ray would not let this process join the cluster there."""
    text = str(error)
    if "Version mismatch" in text:
        return InputError(
            f"the Ray cluster at {address} runs other versions than this process "
            f"({_sentence(text.removeprefix('Version mismatch: '))}); they must be the same"
        )
    if "token" in text.lower():
        return InputError(
            f"the Ray cluster at {address} wants a token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH as they "
            "are set there"
        )
    return InputError(
        f"this machine cannot join the Ray cluster at {address} ({_sentence(text)[:200]}); start a node here, "
        f"with ray start --address {address}"
    )


def _first(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".")[:200] if lines else type(error).__name__


def _sentence(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
