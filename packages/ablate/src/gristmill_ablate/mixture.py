"""A search for the shares of domains: small trainings in a store, and a `mix` block with its evidence.

The trainings are stages of the engine, as those of an ablation: none runs twice, and a search that was stopped goes on.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gristmill.counted import counted
from gristmill.engine.schedule.run import Run
from gristmill.engine.schedule.task_cache import Listener
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.recipe.checks.mistakes import suggest
from gristmill.recipe.yaml.edit import written
from gristmill.shardformat.locations import read_bytes
from gristmill.stages.decontaminate.suite.suite import read_suite
from gristmill.store.store import Store
from gristmill_ablate.proxy.domains import DomainPool
from gristmill_ablate.proxy.items import Items
from gristmill_ablate.proxy.swarm import MixtureSpace, propose
from gristmill_ablate.proxy.verdict import Scores, bits_per_byte
from gristmill_ablate.setups import Setup
from gristmill_ablate.stages import domain_pool, doremi, evaluate, held_out, items, train
from gristmill_ablate.trainings import Side, TrainingGraph, Trainings, file_of

Array = np.ndarray[Any, Any]

COPIES = 0.5
"""The share of documents in another domain from which on a domain is noted as a copy of it."""
UNSURE = 0.5
"""The rank correlation below which the runs cannot be predicted from each other."""


@dataclass(frozen=True)
class Domains:
    """What a manifest says of its domains; arrays are in the order of the names."""

    names: tuple[str, ...]
    tokens: Array
    drawn: Array
    """Tokens that the whole training draws."""
    most: Array
    """Tokens that max_epochs allows."""

    @classmethod
    def of(cls, side: Side) -> "Domains":
        manifest = json.loads(read_bytes(side.shards.manifest.location))
        used: dict[str, float] = {}
        for phase in manifest["phases"]:
            for name, samples in phase["weights"].items():
                used[name] = used.get(name, 0) + samples * phase["samples"] / sum(phase["weights"].values())
        groups = [group for group in manifest["groups"] if used.get(group["name"])]
        if without := sorted({group["source"] for group in groups if not group["domain"]}):
            raise UserError(
                f"{side.name}: the source {without[0]} has no domain, and shares are of domains, so nothing was "
                "trained. Add domain: to it, and run the recipe."
            )
        names = tuple(sorted({group["domain"] for group in groups}))
        if len(names) < 2:
            raise UserError(
                f"{side.name}: its mixture draws from one domain, so there is no share to search. Give the sources "
                "other domains, or take them from a column (docs/mix.md), and run the recipe."
            )

        def sums(value: Any) -> Array:
            return np.array([sum(value(group) for group in groups if group["domain"] == name) for name in names], float)

        return cls(
            names,
            sums(lambda entry: entry["tokens"]),
            sums(lambda entry: used[entry["name"]] * entry["tokens"] / entry["samples"]),
            sums(lambda entry: entry["max_epochs"] * entry["tokens"]),
        )

    def space(self, floors: Mapping[str, float]) -> MixtureSpace:
        """All shares that floors and caps allow."""
        for name in floors:
            if name not in self.names:
                raise UserError(
                    f"{option('floor', name)}: the mixture has no such domain. {suggest(name, self.names, 'Domains')}"
                )
        low = np.array([floors.get(name, 0.0) for name in self.names])
        return MixtureSpace(self.names, self.tokens / self.tokens.sum(), low, self.most / self.drawn.sum())


@dataclass(frozen=True)
class Proposed:
    """Shares of the domains, and what they rest on."""

    domains: Domains
    shares: Array
    low: Array
    high: Array
    evidence: list[str]
    remarks: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        rows = zip(self.domains.names, *self._columns(), strict=True)
        columns = ("natural", "recipe", "proposed", "low", "high", "epochs")
        return {
            "domains": {name: dict(zip(columns, map(float, values), strict=True)) for name, *values in rows},
            "evidence": self.evidence,
            "remarks": self.remarks,
        }

    def _columns(self) -> tuple[Array, ...]:
        domains = self.domains
        natural, recipe = domains.tokens / domains.tokens.sum(), domains.drawn / domains.drawn.sum()
        epochs = self.shares * domains.drawn.sum() / domains.tokens
        return natural, recipe, self.shares, self.low, self.high, epochs

    def to_yaml(self) -> str:
        """The block for a recipe, with its evidence as comments."""
        names = [written(name) for name in self.domains.names]
        width = max(len("domain"), *map(len, names))
        lines = [f"# {line}" for line in self.evidence]
        lines.append(f"# {'domain':{width}}  natural  recipe  proposed  interval          epochs")
        for name, natural, recipe, share, low, high, epochs in zip(names, *self._columns(), strict=True):
            interval = f"{low:.4f} to {high:.4f}"
            lines.append(f"# {name:{width}}  {natural:7.4f}  {recipe:6.4f}  {share:8.4f}  {interval}  {epochs:6.2f}")
        lines += [f"# NOTE: {remark}" for remark in self.remarks]
        pairs = ", ".join(f"{name}: {round(float(share), 4)}" for name, share in zip(names, self.shares, strict=True))
        return "\n".join([*lines, "mix:", f"  domains: {{{pairs}}}", ""])


class MixtureSearch:
    """A recipe that was run, what to train, and the store for it."""

    def __init__(
        self,
        side: Side,
        setup: Setup,
        store: Store,
        suite: str | None = None,
        on: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """`on`: the name of the executor and the address of its cluster."""
        self.side, self.setup = side, setup
        self.suite = os.path.abspath(suite) if suite else None
        self._trainings = Trainings(store, setup, self.suite, on)
        self.domains = Domains.of(side)
        side.check_tokens(int(self.domains.drawn.sum()), setup)

    def swarm(
        self,
        floors: Mapping[str, float],
        targets: Mapping[str, float],
        listener: Listener,
        workers: int | None = None,
        runs: int | None = None,
    ) -> Proposed:
        """Random mixtures, a regression, and its optimum."""
        space = self.domains.space(floors)
        self._check_targets(targets)
        count = runs or 3 * (len(space.names) + 1)
        tried = space.design(count)
        graph = self._begun()
        for number, row in enumerate(tried):
            self._add_trained(graph, f"run_{number:03}", row)
        run = graph.run(workers, listener)
        pool = DomainPool.load(file_of(run, "pool"))
        scores = self._scores(run, count)
        weights = dict(targets) or self._weights(scores, pool)
        proposal = propose(space, tried, scores, weights)
        gain, low, high = (f"{100 * value:+.2f}%" for value in proposal.gain)
        evidence = [
            f"Swarm: {self._described(count)}, mixtures around the natural one.",
            f"Targets: {', '.join(f'{written(name)} ({weight:.3g})' for name, weight in weights.items())}.",
            f"Predicted bits per byte against the natural mixture: {gain} (95% interval {low} to {high}).",
            f"Runs predicted from the other runs: rank correlation {proposal.rank_correlation:.2f}.",
            "Intervals of shares: 95%, over resampled runs.",
        ]
        remarks = self._copies(pool)
        if proposal.gain[2] >= 0 or proposal.rank_correlation < UNSURE:
            remarks.append(
                "these runs are no evidence that the proposal is better than the natural mixture. Use more tokens, "
                "larger models or more runs."
            )
        return Proposed(self.domains, proposal.shares, proposal.low, proposal.high, evidence, remarks)

    def doremi(self, floors: Mapping[str, float], listener: Listener, workers: int | None = None) -> Proposed:
        """A reference on equal shares, as far as max_epochs allows, and a proxy that weighs the domains."""
        space = self.domains.space(floors)
        count = len(space.names)
        equal = space.project(np.full(count, 1 / count))
        graph = self._begun()
        reference = graph.add("reference", train, self._training(equal), {"pool": "pool"})
        graph.add("doremi", doremi, self._training(equal), {"pool": "pool", "train": reference})
        run = graph.run(workers, listener)
        with np.load(file_of(run, "doremi")) as file:
            alphas = file["alphas"]
        quarters = np.stack([part.mean(0) for part in np.array_split(alphas, 4) if len(part)])
        evidence = [
            f"DoReMi: {self._described(2)}, a reference on equal shares (as far as max_epochs allows) and a proxy that "
            "weighs domains by their excess loss.",
            f"Proposed is the mean weight of {counted(len(alphas), 'step')}, within caps and floors; the interval is "
            "the range of the means of its quarters.",
        ]
        remarks = self._copies(DomainPool.load(file_of(run, "pool")))
        mean = space.project(alphas.mean(0))
        return Proposed(self.domains, mean, quarters.min(0), quarters.max(0), evidence, remarks)

    def _described(self, count: int) -> str:
        return f"{counted(count, 'training')} of {self.setup.size} models, {counted(self.setup.tokens, 'token')} each"

    def _check_targets(self, targets: Mapping[str, float]) -> None:
        names = [*self.domains.names, *(self._tasks() if self.suite else ())]
        for name in targets:
            if name not in names:
                raise UserError(
                    f"{option('target', name)} is not a domain or a benchmark. {suggest(name, names, 'Targets')}"
                )

    def _tasks(self) -> list[str]:
        """The benchmarks of the suite; one with the name of a domain gets another name."""
        assert self.suite is not None
        names = sorted({item.benchmark for item in read_suite(self.suite).items})
        return [f"{name}/suite" if name in self.domains.names else name for name in names]

    def _weights(self, scores: Mapping[str, Array], pool: DomainPool) -> dict[str, float]:
        """The benchmarks of the suite, or else all domains; of domains that share documents, each counts less."""
        if self.suite:
            return {name: 1.0 for name in scores if name in self._tasks()}
        return {name: float(1 / pool.shared[number].sum()) for number, name in enumerate(pool.names) if name in scores}

    def _copies(self, pool: DomainPool) -> list[str]:
        names = [written(name) for name in pool.names]
        return [
            f"{pool.shared[a, b]:.0%} of the documents of {domain} are in {other}, too. Their shares add up: count "
            "them as one domain, or remove the copies."
            for a, domain in enumerate(names)
            for b, other in enumerate(names)
            if a != b and pool.shared[a, b] >= COPIES
        ]

    def _begun(self) -> TrainingGraph:
        """The graph of a search without its trainings: the pool of documents, the held-out ones, the suite's items."""
        manifest, setup = self.side.shards.manifest, self.setup
        graph = self._trainings.graph(f"mix_{manifest.hash[:8]}")
        thin = domain_pool.Config(
            manifest=manifest.hash, tokens=setup.tokens, held=setup.scored, location=manifest.location
        )
        tokenizer = self.side.shards.checked(manifest.tokenizer["file"])
        graph.add("pool", domain_pool, thin)
        graph.add("held_out", held_out, held_out.Config(tokenizer=tokenizer, window=setup.sequence), {"pool": "pool"})
        if self.suite:
            graph.add("items", items, self._trainings.items_for(self.side))
        return graph

    def _training(self, shares: Array) -> train.Config:
        return self._trainings.training(seed=0, shares=tuple(np.round(shares, 6).tolist()))

    def _add_trained(self, graph: TrainingGraph, name: str, shares: Array) -> None:
        """Add a training and its scores."""
        graph.add(name, train, self._training(shares), {"pool": "pool"})
        for kind in ("held_out", "items") if self.suite else ("held_out",):
            uses = {"pool": "pool", "train": name, "items": kind}
            graph.add(f"{name}/{kind}", evaluate, self._trainings.scoring(), uses)

    def _scores(self, run: Run, count: int) -> dict[str, Array]:
        """Bits per byte of every task, run by run. Items that the pool holds do not count, if others do."""
        scores: dict[str, list[float]] = {}
        for kind in ("held_out", "items") if self.suite else ("held_out",):
            read = Items.load(file_of(run, kind))
            tasks = self._tasks() if kind == "items" else read.tasks
            for number_of_run in range(count):
                with np.load(file_of(run, f"run_{number_of_run:03}/{kind}")) as file:
                    bits, in_pool = bits_per_byte(read, Scores(file["bits"], file["greedy"])), file["touched"]
                for number, task in enumerate(tasks):
                    of_task = read.task == number
                    clean = of_task & ~in_pool if (of_task & ~in_pool).any() else of_task
                    scores.setdefault(task, []).append(float(bits[clean].mean()))
        return {name: np.array(values) for name, values in scores.items()}
