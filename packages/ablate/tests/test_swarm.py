"""The regression over runs, its optimum under caps and floors, and the block that is written. No torch."""

import json

import numpy as np
import pytest

from gristmill.errors import UserError
from gristmill_ablate.mixture import Domains, Proposed
from gristmill_ablate.proxy.domains import DomainPool, draw, thin_domains
from gristmill_ablate.proxy.pool import Pool
from gristmill_ablate.proxy.swarm import MixtureSpace, fit, propose, spearman
from sharded import Corpus

NATURAL = np.array([0.6, 0.3, 0.1])


def space(low=0.0, high=1.0, names=("web", "code", "math")):
    return MixtureSpace(names, NATURAL, np.broadcast_to(low, 3).astype(float), np.broadcast_to(high, 3).astype(float))


def made(shares, noise=0.0, seed=0):
    """Each target falls with the share of one domain; of the third not at all."""
    random = np.random.default_rng(seed)
    rows = np.stack([0.6 + np.exp(-3 * shares[:, 0]), 0.5 + 0.8 * np.exp(-9 * shares[:, 1]), np.full(len(shares), 1.0)])
    return dict(zip(("x", "y", "z"), rows + noise * random.normal(size=rows.shape), strict=True))


def test_a_response_predicts_mixtures_that_it_has_not_seen():
    """Runs that are left out, and other mixtures, are in the right order."""
    tried, others = space().design(12), space().design(30, seed=5)
    response = fit(tried, made(tried, 0.005)["y"])
    assert spearman(response.predict(others), made(others)["y"]) > 0.95
    assert spearman(response.left_out, made(tried)["y"]) > 0.9


def test_the_optimum_is_that_of_the_function_and_its_interval_covers_it():
    """Against a grid of all mixtures; more noise widens the interval."""
    tried = space().design(24)
    grid = np.array([(a, b, 100 - a - b) for a in range(101) for b in range(101 - a)]) / 100
    base = made(space().design(2))
    values = sum(made(grid)[name] / base[name][0] for name in "xy")
    best = grid[np.argmin(values)]
    found = propose(space(), tried, made(tried, 0.002), {"x": 1, "y": 1})
    assert found.shares == pytest.approx(best, abs=0.05)
    assert (found.low - 0.02 <= best).all()
    assert (best <= found.high + 0.02).all()
    assert found.gain[1] <= found.gain[0] <= found.gain[2] < 0
    noisy = propose(space(), tried, made(tried, 0.1), {"x": 1, "y": 1})
    assert (noisy.high - noisy.low).sum() > 2 * (found.high - found.low).sum()


def test_weights_of_targets_move_the_optimum():
    tried = space().design(24)
    scores = made(tried, 0.002)
    first, second = (
        propose(space(), tried, scores, weights).shares for weights in ({"x": 1, "y": 0}, {"x": 1, "y": 5})
    )
    assert first[0] > 0.9
    assert second[1] > first[1] + 0.2


def test_every_mixture_keeps_to_caps_and_floors():
    """Those that are trained and the proposal."""
    bounded = space([0.1, 0, 0.05], [0.5, 0.4, 1])
    tried = bounded.design(40)
    found = propose(bounded, tried, made(tried), {"x": 1})
    for row in (*tried, found.shares):
        assert row.sum() == pytest.approx(1)
        assert (row >= bounded.low - 1e-6).all()
        assert (row <= bounded.high + 1e-6).all()
    assert found.shares[0] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        (0.4, 1.0, "the floors sum to 1.2"),
        ([0.3, 0, 0], [0.2, 1, 1], "the floor of web is 0.3, and max_epochs allows at most 0.2"),
        (0.0, [0.5, 0.3, 0.2], "max_epochs leaves no choice"),
    ],
)
def test_bounds_that_cannot_be_met_are_refused(low, high, told):
    with pytest.raises(UserError, match=told):
        space(low, high)


def domains(*names):
    count = len(names)
    return Domains(names, np.arange(1.0, count + 1), np.full(count, 2.0), np.full(count, 9.0))


def test_a_proposal_is_a_mix_block():
    shares = np.array([0.5, 0.3, 0.2])
    text = Proposed(domains("web", "code", "math"), shares, shares, shares, ["Why."], ["Beware."]).to_yaml()
    assert text.startswith("# Why.\n# domain")
    assert text.endswith("\nmix:\n  domains: {web: 0.5, code: 0.3, math: 0.2}\n")
    assert "# NOTE: Beware." in text


def test_a_name_that_yaml_would_misread_is_quoted():
    shares = np.array([0.5, 0.5])
    text = Proposed(domains("a: b", "null"), shares, shares, shares, []).to_yaml()
    assert text.endswith('domains: {"a: b": 0.5, "null": 0.5}\n')


@pytest.fixture
def manifest(project):
    """Notes, and tales that are notes for the most part."""
    corpus = Corpus(project)
    lines = (project.folder / "notes.jsonl").read_text().splitlines()
    (project.folder / "tales.jsonl").write_text("\n".join(lines[:80]))
    corpus.recipe(mix="mix: {domains: {notes: 0.5, tales: 0.5}, tiers: {A: 2, B: 1}, tokens: 60k, max_epochs: 50}")
    return corpus.run()[1]


def test_a_pool_of_domains_holds_out_copies_and_draws_any_mixture(manifest, tmp_path):
    """No held-out document is in the pool, in any domain; shares are exact; a saved pool is the same."""
    pool = thin_domains(manifest, 20_000, 2000)
    assert pool.names == ("notes", "tales")
    assert pool.shared[0, 1] < 0.6 < pool.shared[1, 0]  # their few words make near copies of other notes, too
    pieces = {pool.tokens[first:last].tobytes() for first, last in zip(pool.starts[:-1], pool.starts[1:], strict=True)}
    held = [
        pool.held_tokens[first:last] for first, last in zip(pool.held_starts[:-1], pool.held_starts[1:], strict=True)
    ]
    assert {*pool.held_domain.tolist()} == {0, 1}
    assert not pieces & {each.tobytes() for each in held}
    for shares in ((0.5, 0.5), (0.9, 0.1), (0.0, 1.0)):
        drawn = draw(pool, shares, 10_000)
        assert np.bincount(drawn.domain, np.diff(drawn.starts), 2).tolist() == [10_000 * share for share in shares]
    pool.save(tmp_path / "pool")
    again = DomainPool.load(tmp_path / "pool")
    assert again.names == pool.names
    assert (draw(again, (0.3, 0.7), 5000).tokens == draw(pool, (0.3, 0.7), 5000).tokens).all()


def test_a_part_of_a_domain_has_its_documents_evenly():
    """Of what the mixture draws four times, a quarter of the domain has each once, and of the rest every fourth."""
    number = np.concatenate([np.repeat(range(100), 4), range(100, 500)])
    keys = number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    ones = np.zeros(len(keys), np.int64)
    pool = Pool(number, np.arange(len(keys) + 1), keys, ones, np.zeros(1, bool), 500, 0, ("a",), ones)
    drawn = draw(pool, (1.0,), 200)
    times = np.bincount(drawn.tokens, minlength=500)
    assert (times[:100] == 1).mean() > 0.9
    assert times[100:].sum() == pytest.approx(100, abs=8)


def test_what_a_manifest_says_of_its_domains(manifest):
    """Tokens, what is drawn, and what the caps allow; a mixture of one domain has nothing to search."""

    class Side:
        name, shards = "corpus.yaml", type("Shards", (), {"manifest": manifest})

    found = Domains.of(Side)
    assert found.drawn / found.drawn.sum() == pytest.approx([0.5, 0.5], abs=0.01)
    assert found.most == pytest.approx(50 * found.tokens)
    with pytest.raises(UserError, match=r"floor=tale: the mixture has no such domain\. Did you mean tales\?"):
        found.space({"tale": 0.1})
    assert (
        json.loads(json.dumps(Proposed(found, *[np.array([0.4, 0.6])] * 3, []).to_json()))["domains"]["tales"][
            "proposed"
        ]
        == 0.6
    )
