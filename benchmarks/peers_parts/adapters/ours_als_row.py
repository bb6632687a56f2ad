"""fedboard's alternating least squares without privacy, for explicit and implicit jobs.

Its objective takes the weight alpha0 for unobserved pairs where others take 1 and give observed ones c: it is
divided by c - 1 here, and the label c / (c - 1) makes up for the rest, so each half step solves the same linear
systems.
"""

from typing import Any

from harness import Arrays, Job, Told, measured


def load() -> Any:
    from fedboard.common import kernels
    from fedboard.common.algorithms.shared.ratings_config import Feedback
    from fedboard.common.cohort import Cohort
    from fedboard.simulations.baselines.als import AlsConfig, fit_als

    return kernels, Cohort, Feedback, AlsConfig, fit_als


def prepare(library: Any, job: Job) -> Any:
    _, cohort, *_ = library
    return cohort(indptr=job.row_bounds(), items=job.item, ratings=job.rating, n_items=job.n_items)


def options(library: Any, job: Job) -> dict[str, Any]:
    kernels, _, feedback, *_ = library
    spec, ridge = job.spec, float(job.spec["ridge"])
    common = {
        "rank": spec["rank"],
        "sweeps": spec["epochs"],
        "seed": spec["seed"],
        "backend": kernels.choose_backend(spec["rank"], spec["n_ratings"] * 2 * spec["epochs"]),
        "threads": job.threads,
    }
    if spec["kind"] == "explicit":
        exponents = {"user_ridge_exponent": 1.0, "item_ridge_exponent": 1.0}
        ridges = {"user_ridge": ridge, "item_ridge": ridge}
        return {
            "feedback": feedback.EXPLICIT,
            "rating_range": tuple(spec["rating_range"]),
            **common,
            **ridges,
            **exponents,
        }
    extra = spec["confidence"] - 1.0
    return {
        "feedback": feedback.IMPLICIT,
        "unobserved_weight": 1.0 / extra,
        "unit": extra / spec["confidence"],
        "user_ridge": ridge / extra,
        "item_ridge": ridge / extra,
        "user_ridge_exponent": 0.0,
        "item_ridge_exponent": 0.0,
        **common,
    }


def fit(library: Any, job: Job, cohort: Any) -> tuple[Arrays, Told]:
    """Sweeps, and one user step more: our model keeps no users' vectors, and the judge wants some."""
    *_, config, fit_als = library
    model = fit_als(cohort, config(**options(library, job)))
    users = model.fit_local(cohort, threads=job.threads)
    return {"users": users, "items": model.item_factors}, {"backend": model.config.backend}


if __name__ == "__main__":
    measured("fedboard", load, prepare, fit)
