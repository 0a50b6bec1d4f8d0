"""The best mixture by a regression over small trainings with random mixtures. NumPy only.

Each training has shares w of the domains and, for every target, a score y in bits per byte. The response of a target is

    y(w) = floor + exp(b + sum of a_d * f(w_d)),   f one of w, sqrt(w), log(w + 0.01)

which falls fast where a domain is rare and slowly where it is common. f, the floor and the strength of a ridge penalty
are those that predict left-out runs best. The objective is the weighted mean over targets of y(w) / y(natural). It is
minimised over shares between a floor and a cap; this is repeated for resampled runs (bootstrap), and the proposal is
the mean of the optima: what single runs decide by chance averages out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gristmill.errors import UserError

Array = np.ndarray[Any, Any]

DRAWS = 200
STEPS = 200
TEMPERATURE = 2.0
"""Mixtures are drawn around the natural one at this temperature, so that small domains are seen often enough."""
RARE = 0.01

FEATURES: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "w": (lambda w: w, np.ones_like),
    "sqrt(w)": (np.sqrt, lambda w: 0.5 / np.sqrt(np.maximum(w, 1e-6))),
    "log(w)": (lambda w: np.log(w + RARE), lambda w: 1 / (w + RARE)),
}
"""f and its slope."""
FLOORS = (0.03, 0.1, 0.3, 1.0, 3.0, 30.0)
"""How far the floor is below the best run, in ranges of the runs. The last is nearly linear."""
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1)


@dataclass(frozen=True)
class MixtureSpace:
    """The shares that are searched, one for each domain, or for a group of domains with fixed ratios."""

    names: tuple[str, ...]
    natural: Array
    low: Array
    high: Array

    def __post_init__(self) -> None:
        if self.low.sum() > 1:
            raise UserError(
                f"the floors sum to {self.low.sum():.3g}, and shares to 1, so nothing was trained. Lower one."
            )
        for name, low, high in zip(self.names, self.low, self.high, strict=True):
            if low > high:
                raise UserError(
                    f"the floor of {name} is {low:.3g}, and max_epochs allows at most {high:.3g}, so nothing was "
                    "trained. Lower the floor, or raise max_epochs."
                )
        if np.minimum(self.high, 1).sum() < 1.001:
            raise UserError(
                "max_epochs leaves no choice: the mixture draws every domain as often as it may, so nothing was "
                "trained. Lower mix.tokens, or raise max_epochs."
            )

    def project(self, shares: Array) -> Array:
        """Rows of shares scaled until each sums to 1 between its floors and caps."""
        low, high = np.full(shares.shape[:-1], -20.0), np.full(shares.shape[:-1], 20.0)
        for _ in range(36):
            level = (low + high) / 2
            over = np.clip(shares * np.exp(level)[..., None], self.low, self.high).sum(-1) > 1
            low, high = np.where(over, low, level), np.where(over, level, high)
        clipped = np.clip(shares * np.exp(low)[..., None], self.low, self.high)
        return np.asarray(clipped / clipped.sum(-1, keepdims=True))

    def design(self, runs: int, seed: int = 0) -> Array:
        """Mixtures to train on: the natural one, then random ones around it."""
        centre = np.maximum(self.natural, 1e-6) ** (1 / TEMPERATURE)
        centre /= centre.sum()
        drawn = np.random.default_rng(seed).dirichlet(len(centre) * centre, runs - 1)
        return self.project(np.concatenate([self.natural[None], np.maximum(drawn, 1e-4)]))


@dataclass(frozen=True)
class Response:
    """The fitted score of a target; arrays have a leading axis for bootstrap draws."""

    feature: str
    floor: float
    ridge: float
    intercept: Array
    slopes: Array
    left_out: Array
    """The score of each run as the others predict it."""

    def predict(self, shares: Array) -> Array:
        """Of each draw, at its row of shares."""
        z = self.intercept + (self.slopes * FEATURES[self.feature][0](shares)).sum(-1)
        return np.asarray(self.floor + np.exp(np.minimum(z, 50)))

    def slope(self, mixture: Array) -> Array:
        return np.asarray(
            (self.predict(mixture) - self.floor)[..., None] * self.slopes * FEATURES[self.feature][1](mixture)
        )


def fit(shares: Array, scores: Array) -> Response:
    """The response that predicts left-out runs best."""
    best: tuple[float, Response] | None = None
    spread = float(np.ptp(scores)) or 1e-9
    for feature in FEATURES:
        for below in FLOORS:
            for ridge in RIDGES:
                floor = float(scores.min()) - below * spread
                intercept, slopes, left_out = _solve(shares, scores, feature, floor, ridge)
                error = float(((left_out - scores) ** 2).mean())
                if best is None or error < best[0]:
                    best = error, Response(feature, floor, ridge, intercept, slopes, left_out)
    assert best is not None
    return best[1]


def resampled(response: Response, shares: Array, scores: Array, draws: Sequence[Array]) -> Response:
    """The same form, fitted to each draw of the runs."""
    solutions = [_solve(shares[rows], scores[rows], response.feature, response.floor, response.ridge) for rows in draws]
    intercept, slopes = (
        np.array([solution[0] for solution in solutions]),
        np.stack([solution[1] for solution in solutions]),
    )
    return Response(response.feature, response.floor, response.ridge, intercept, slopes, response.left_out)


def _solve(shares: Array, scores: Array, feature: str, floor: float, ridge: float) -> tuple[Array, Array, Array]:
    """Least squares of the scores, by weights on the logarithm; with a ridge penalty on the slopes."""
    x = FEATURES[feature][0](shares)
    above = scores - floor
    weight = (above / above.mean()) ** 2
    centre = (weight[:, None] * x).sum(0) / weight.sum()
    rows = np.column_stack([np.ones(len(x)), x - centre])
    penalty = ridge * len(x) * float(x.var(0).mean()) * np.eye(rows.shape[1])
    penalty[0, 0] = 0
    inverse = np.linalg.inv(rows.T @ (weight[:, None] * rows) + penalty + 1e-12 * np.eye(rows.shape[1]))
    z = np.log(above)
    coefficients = inverse @ rows.T @ (weight * z)
    leverage = np.minimum(((rows @ inverse) * rows).sum(1) * weight, 0.99)
    left_out = z - (z - rows @ coefficients) / (1 - leverage)
    return coefficients[0] - coefficients[1:] @ centre, coefficients[1:], floor + np.exp(np.minimum(left_out, 50))


@dataclass(frozen=True)
class Proposal:
    """A mixture with what is known of it."""

    shares: Array
    low: Array
    high: Array
    """The 95% interval of each share, over resampled runs."""
    gain: tuple[float, float, float]
    """The predicted change of the objective from the natural mixture, and its 95% interval; below 0 is better."""
    rank_correlation: float
    """Of the objective of the runs and of its prediction from the other runs (Spearman)."""
    responses: Mapping[str, Response]


def propose(space: MixtureSpace, shares: Array, scores: Mapping[str, Array], weights: Mapping[str, float]) -> Proposal:
    """The best shares for targets with these weights. The first run is the natural mixture."""
    whole = sum(weights.values())
    parts = {name: weight / whole for name, weight in weights.items() if weight > 0}
    fitted = {name: fit(shares, scores[name]) for name in parts}
    random = np.random.default_rng(1)
    draws = [random.integers(0, len(shares), len(shares)) for _ in range(DRAWS)]
    many = {name: resampled(fitted[name], shares, scores[name], draws) for name in parts}
    base = {name: float(scores[name][0]) for name in parts}

    def objective(responses: Mapping[str, Response], mixture: Array) -> Array:
        return np.asarray(sum(part * responses[name].predict(mixture) / base[name] for name, part in parts.items()))

    def slope(mixture: Array) -> Array:
        return np.asarray(sum(part * many[name].slope(mixture) / base[name] for name, part in parts.items()))

    starts = np.stack([space.natural, np.full(len(space.natural), 1 / len(space.natural))])
    reached = _descend(space, np.tile(starts[:, None], (1, DRAWS, 1)), slope)
    best = reached[np.argmin(objective(many, reached), 0), np.arange(DRAWS)]
    mean = best.mean(0)
    low, high = np.quantile(best, [0.025, 0.975], axis=0)
    natural = space.project(space.natural[None])[0]
    gains = objective(many, mean) / objective(many, natural) - 1
    gain = float(objective(fitted, mean) / objective(fitted, natural) - 1)
    observed = sum(part * scores[name] / base[name] for name, part in parts.items())
    predicted = sum(part * fitted[name].left_out / base[name] for name, part in parts.items())
    interval = (gain, float(np.quantile(gains, 0.025)), float(np.quantile(gains, 0.975)))
    return Proposal(mean, low, high, interval, spearman(np.asarray(observed), np.asarray(predicted)), fitted)


def _descend(space: MixtureSpace, start: Array, slope: Callable[[Array], Array]) -> Array:
    """Shares by multiplicative steps against the slope, each row alone."""
    shares = space.project(np.maximum(start, 1e-4))
    for step in range(STEPS):
        against = slope(shares)
        against = against - (shares * against).sum(-1, keepdims=True)
        against /= np.abs(against).max(-1, keepdims=True) + 1e-12
        shares = space.project(np.maximum(shares, 1e-6) * np.exp(-0.5 * (1 - step / STEPS) * against))
    return shares


def spearman(a: Array, b: Array) -> float:
    """Rank correlation."""
    ranks = [np.argsort(np.argsort(values)).astype(float) for values in (a, b)]
    return float(np.corrcoef(np.stack(ranks))[0, 1])
