"""Graphs of trainings: stages of the engine, so nothing is trained twice, and a run that was stopped goes on."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from gristmill.counted import counted
from gristmill.engine.files.content import ContentHashes
from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import Graph, Node, make_asset_node
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.engine.schedule.run import Run
from gristmill.engine.schedule.task_cache import Listener
from gristmill.errors import UserError
from gristmill.query.versions.published import Published
from gristmill.recipe.model import Recipe
from gristmill.stages.contract import StageConfig
from gristmill.store.store import Store
from gristmill_ablate.setups import Setup
from gristmill_ablate.stages import evaluate, items, train


@dataclass(frozen=True)
class Side:
    """A corpus to train on."""

    name: str
    shards: Published

    @property
    def drawn(self) -> tuple[Any, ...]:
        """What its training draws: two sides with the same give the same models. An index also names its recipe."""
        manifest = self.shards.manifest
        groups = [(group.name, [(shard.bin, shard.lineage) for shard in group.shards]) for group in manifest.groups]
        return manifest.head, groups, manifest.phases

    @property
    def tokens(self) -> int:
        """Tokens that its mixture draws, padding included."""
        return self.shards.manifest.samples * self.shards.manifest.seq_len

    @property
    def suites(self) -> set[str]:
        """Hashes of the suites that it was decontaminated against."""
        nodes = self.shards.view.states.values() if self.shards.view else ()
        names = [name for made in nodes for name in made.metrics.get("suites", ())]
        return {name.rpartition(", ")[2] for name in names}

    def check_tokens(self, drawn: int, setup: Setup) -> None:
        """Raise UserError if its mixture draws fewer tokens than a training has."""
        if drawn < setup.tokens:
            raise UserError(
                f"{self.name}: its mixture draws {counted(drawn, 'token')}, and a proxy of size {setup.size} trains on "
                f"{setup.tokens:,}, so nothing was trained. Give fewer tokens, or draw more in `mix`."
            )


@dataclass(frozen=True)
class Trainings:
    """Where proxies are trained, and how."""

    store: Store
    setup: Setup
    suite: str | None
    on: tuple[str | None, str | None] = (None, None)
    """The name of the executor and the address of its cluster."""

    def training(self, **more: Any) -> train.Config:
        """The config of a training."""
        fields = {name: value for name, value in asdict(self.setup).items() if name != "scored"}
        checkpoints = os.path.join(self.store.uri, "checkpoints") if self.store.is_local else ""
        return train.Config(**fields, **more, checkpoints=checkpoints)

    def scoring(self) -> evaluate.Config:
        return evaluate.Config(size=self.setup.size, device=self.setup.device)

    def items_for(self, side: Side) -> items.Config:
        """The items of the suite, in the tokens of a corpus."""
        assert self.suite is not None
        setup, tokenizer = self.setup, side.shards.manifest.tokenizer
        file, end = side.shards.checked(tokenizer["file"]), tokenizer["end_of_document"]
        return items.Config(suite=self.suite, tokenizer=file, end=end, window=setup.sequence, tokens=setup.scored)

    def graph(self, name: str, **more: Any) -> "TrainingGraph":
        """An empty graph. `more` goes into its record, next to suite and setup."""
        text = json.dumps({"suite": self.suite, "setup": asdict(self.setup), **more})
        return TrainingGraph(self, Recipe(name, 0, self.store.uri, False, name, text, {}, (), {}))


class TrainingGraph:
    """Stages that have no documents as input."""

    def __init__(self, trainings: Trainings, recipe: Recipe) -> None:
        self._trainings, self._recipe = trainings, recipe
        self._contents = ContentHashes(trainings.store, recipe.name)
        self._nodes: dict[str, Node] = {}

    def add(self, name: str, stage: ModuleType, config: StageConfig, uses: Mapping[str, str] | None = None) -> str:
        """Add a stage, and return its name. `uses`: the stages whose files it reads, by the names that it uses."""
        self._nodes[name] = make_asset_node(name, stage.__name__, config, uses or {}, contents=self._contents)
        return name

    def mill(self) -> Mill:
        executor, address = self._trainings.on
        graph = Graph(self._recipe, self._nodes, {})
        return Mill(self._recipe, executor=executor, address=address, graph=graph)

    def run(self, workers: int | None, listener: Listener) -> Run:
        return self.mill().run(workers, listener)


def file_of(run: CorpusView, node: str) -> Path:
    """The file that a stage has made."""
    part = run.states[node].model
    assert part is not None
    return run.store.local_path(part)
