"""The promise of a board, recomputed from what its certificate lists [7.2 of docs/reader-specification.md]."""

import math
from itertools import pairwise

from boards import canonical, has_sound_noise, sha256
from manifests import RefusedError

DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
ADJACENCIES = ("add-remove", "replace", "replace-values", "replace-labels")
CLOSE, PRODUCT = 1e-9, 1e-12


def checked(certificate):
    """``passed``, or ``open`` where it cannot be recomputed here.

    Raises:
        RefusedError: ``bad-certificate``: it does not hold.
    """
    try:
        return checked_strictly(certificate)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise RefusedError("bad-certificate") from error


def holds(condition):
    """Refuse a certificate of which something does not hold."""
    if not condition:
        raise RefusedError("bad-certificate")


def agree(stated, right, tolerance=CLOSE):
    """Refuse another number."""
    holds(isinstance(stated, float | int) and math.isclose(stated, right, rel_tol=tolerance))


def checked_strictly(certificate):
    """The same, for a certificate that may hold anything."""
    content = {name: value for name, value in certificate.items() if name != "digest"}
    holds(sha256(canonical(content, ascii_only=True)) == certificate["digest"])
    holds(certificate["format"] == 4)
    claim, terms, releases = (certificate[name] for name in ("claim", "commitment", "releases"))
    holds(0 <= claim["epsilon"] < math.inf and 0 < claim["delta"] < 1 and claim["unit"] == "user")
    holds(claim["adjacency"] in ADJACENCIES and claim["adjacency"] == terms["adjacency"])
    holds(0 < terms["epsilon"] < math.inf and 0 < terms["delta"] < 1)
    holds(certificate["planned"] == (terms["rule"] == "plan") == (terms["plan"] is not None))
    holds(all(has_sound_noise(release) for release in releases))
    plan = {
        name: entry if isinstance(entry, dict) else {"noise_multiplier": entry}
        for name, entry in (terms["plan"] or {}).items()
    }
    coins = any(kind_of(one) == "poisson" for one in (*releases, *plan.values()))
    if terms["plan"] is None or coins:
        return "open"
    if any(release["mechanism"] != "gaussian" for release in releases):
        return "open"
    for release in releases:
        require_release(release, claim["adjacency"])
    require_plan(releases, plan, claim["adjacency"])
    require_numbers(
        certificate, squared_mu(plan), exact=all(kind_of(one) in (None, "disjoint") for one in plan.values())
    )
    require_record(certificate, math.sqrt(squared_mu({release["name"]: release for release in releases})))
    return "passed"


def kind_of(one):
    """Who takes part in a release, or in what is planned; None for everybody."""
    return one["participation"]["kind"] if "participation" in one else None


def require_release(release, adjacency):
    """One release: its sensitivity follows from its bound, its noise from that."""
    holds(all(isinstance(release[name], str) and release[name].strip() for name in ("name", "covers")))
    holds(all(type(release[name]) is int and release[name] > 0 for name in ("rows", "width", "l2_bound")))
    holds(all(0 < release[name] < math.inf for name in ("noise_multiplier", "grid_step")))
    holds(release["adjacency"] == adjacency and isinstance(release["same_sign"], bool))
    rank = math.isqrt(8 * release["width"] + 1)
    holds(
        release["layout"] == "vector"
        or (release["layout"] == "symmetric" and rank**2 == 8 * release["width"] + 1)
    )
    require_participation(release, adjacency)
    factor = 1.0 if adjacency == "add-remove" else math.sqrt(2) if release["same_sign"] else 2.0
    agree(release["l2_sensitivity"], release["l2_bound"] * factor, PRODUCT)
    agree(release["noise_stddev"], release["noise_multiplier"] * release["l2_sensitivity"], PRODUCT)
    holds(release["release_shift"] == max(0, math.floor(math.log2(release["noise_stddev"])) - 20))


def require_participation(one, adjacency):
    """Who takes part is stated as it can be accounted."""
    stated, kind = one.get("participation"), kind_of(one)
    if kind is None:
        return
    holds(isinstance(stated["round"], str) and stated["round"].strip())
    if kind == "disjoint":
        holds(
            type(stated["cohort"]) is type(stated["cohorts"]) is int
            and 0 <= stated["cohort"] < stated["cohorts"]
        )
    else:
        number = stated[{"fixed-size": "size", "shuffled-cohorts": "cohorts"}[kind]]
        holds(type(number) is int and number > 0 and adjacency != "add-remove")


def require_plan(releases, plan, adjacency):
    """Each release was planned, with no less noise, and is made once."""
    for one in plan.values():
        holds(0 < one["noise_multiplier"] < math.inf)
        require_participation(one, adjacency)
    holds(len({release["name"] for release in releases}) == len(releases))
    for release in releases:
        entry = plan[release["name"]]
        holds(release["noise_multiplier"] >= entry["noise_multiplier"] * (1 - CLOSE))
        holds(entry.get("participation") in (None, release.get("participation")))


def squared_mu(plan):
    """Sum of 1 / z^2; of disjoint cohorts of a round the costliest counts."""
    everybody, rounds = 0.0, {}
    for one in plan.values():
        cost = 1.0 / one["noise_multiplier"] ** 2
        if kind_of(one) == "disjoint":
            stated = one["participation"]
            cohorts = rounds.setdefault((stated["round"]), {})
            cohorts[stated["cohort"]] = cohorts.get(stated["cohort"], 0.0) + cost
        else:
            everybody += cost
    return everybody + sum(max(cohorts.values()) for cohorts in rounds.values())


def require_numbers(certificate, squared, *, exact):
    """Composition, curve and what follows for a rating and for two users, all from the plan."""
    claim, terms, stated = certificate["claim"], certificate["commitment"], certificate["composition"]
    mu, rho, delta = math.sqrt(squared), squared / 2, claim["delta"]
    agree(stated["mu"], mu)
    agree(stated["rho"], rho)
    holds(stated["exact"] is exact and len(certificate["curve"]) == len(DELTAS))
    points = [(stated, delta), *zip(certificate["curve"], DELTAS, strict=True)]
    for point, at in points:
        agree(point.get("delta", at), at)
        agree(point["epsilon"], epsilon(at, mu))
        agree(point["epsilon_zcdp"], rho + 2 * math.sqrt(rho * math.log(1 / at)))
        agree(point["epsilon_rdp"], through_renyi(at, rho))
    steps = 2 if claim["adjacency"] == "add-remove" else 1
    agree(certificate["implied"]["pair_epsilon"], epsilon(delta, 2 * mu))
    agree(certificate["implied"]["rating_epsilon"], epsilon(delta, steps * mu))
    holds(epsilon(delta, mu) <= claim["epsilon"] * (1 + CLOSE))
    holds(epsilon(terms["delta"], mu) <= terms["epsilon"] * (1 + CLOSE) ** 2)


def require_record(certificate, made_mu):
    """Noise, rounds, format and the account of its population."""
    releases, rounds, total = (certificate[name] for name in ("releases", "rounds", "population"))
    labels = "; ".join(sorted({release["noise"] for release in releases})) or "no release yet"
    private = bool(releases) and all(release["private"] for release in releases)
    holds(certificate["noise"] == labels and certificate["private"] is private)
    if rounds is not None:
        holds(
            min(rounds["made"], rounds["lost"]) >= 0 and rounds["made"] + rounds["lost"] <= rounds["planned"]
        )
    if total is not None:
        holds(total["adjacency"] == certificate["claim"]["adjacency"] and 0 < total["delta"] < 1)
        limits = [
            epsilon(total["delta"], made_mu),
            *(total[name] for name in ("lineage_spent", "spent", "committed", "budget")),
        ]
        holds(all(low <= high * (1 + CLOSE) for low, high in pairwise(limits)))
        own = total["budget"] if total["lineage_budget"] is None else total["lineage_budget"]
        holds(total["lineage_spent"] <= own * (1 + CLOSE))


def delta_of(e, mu):
    """``Phi(-e/mu + mu/2) - exp(e) Phi(-e/mu - mu/2)``."""
    kept, lost = (math.erfc((e / mu + sign * mu / 2) / math.sqrt(2)) / 2 for sign in (-1, 1))
    return kept - (math.exp(e + math.log(lost)) if lost > 0 else 0.0)


def epsilon(delta, mu):
    """The smallest epsilon at which mu-GDP has this delta."""
    if mu == 0 or delta_of(0.0, mu) <= delta:
        return 0.0
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + mu
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(middle, mu) <= delta else (middle, high)
    return high


def through_renyi(delta, rho):
    """Epsilon by way of Renyi orders, at the best of them."""
    if rho == 0:
        return 0.0
    low, high = 0.0, min(1 / delta - 1, math.sqrt(math.log(1 / delta) / rho))
    for _ in range(200):
        middle = (low + high) / 2
        small = rho * middle**2 < -math.log(delta * (1 + middle))
        low, high = (middle, high) if small else (low, middle)
    order = 1 + high
    return max(order * rho + math.log(high / order) - math.log(delta * order) / high, 0.0)
