"""The stage graph of a recipe: for every source a chain of layers over its documents.

Each map or exchange step adds one layer of columns to every document part of its sources. The earlier layers and models
that it reads on each source's route are bound before any work (`recipe/checks/columns.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from typing import Any

from gristmill.engine.files.config_files import ConfigFile, find_config_file
from gristmill.engine.files.content import ContentHashes
from gristmill.engine.plan.facts import NodeFacts as NodeFacts
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.recipe.checks.columns import (
    INGEST,
    View,
    adds_layer,
    bind_route,
    columns_of,
    columns_of_source,
    extracts,
    judges,
)
from gristmill.recipe.checks.files import place_files
from gristmill.recipe.checks.mistakes import listed, nearest
from gristmill.recipe.model import Recipe, Source, Step
from gristmill.schema import DOCUMENTS
from gristmill.stages import COPIES as COPIES
from gristmill.stages import CORPUS as CORPUS
from gristmill.stages import INDEX as INDEX
from gristmill.stages.calls import RequestFields
from gristmill.stages.code_content import content_of
from gristmill.stages.config_types import fields_of_output
from gristmill.stages.contract import Fit, LayerStage, Map, Resources, StageConfig
from gristmill.stages.declarations import stage_of
from gristmill.stages.dedup import copies_left
from gristmill.stages.dedup.scope import scope_reads
from gristmill.stages.dedup.scope_words import SCOPE_WORDS, Scope
from gristmill.stages.own_code import Code, is_own
from gristmill.stages.select import corpus, index

Identity = tuple[dict[str, Any], dict[str, ConfigFile]]

_COMPARE_TEXTS = ("exact_dedup", "near_dedup")


@dataclass(frozen=True)
class Node(NodeFacts):
    """One stage of the graph."""

    module: str
    config: StageConfig
    views: Mapping[str, View]
    """Per source; an asset has one view, under the empty name."""
    depth: int
    files: Mapping[str, ConfigFile] = field(default_factory=dict)
    """Location -> the file or folder that the config names."""
    code: Code = field(default_factory=dict)
    """The code of a user's own stage."""
    where: str = ""
    """The recipe's file and the line of the step."""

    @property
    def models(self) -> Mapping[str, str]:
        """Name -> id of the node that makes the model; only for nodes with the same models for all sources."""
        return next(iter(self.views.values())).models

    @property
    def uses(self) -> set[str]:
        """Ids of the nodes that make its models."""
        return {maker for view in self.views.values() for maker in view.models.values()}

    @property
    def pinned_code(self) -> dict[str, str]:
        """The hashes of the user's own files that are not in the key, because the step pins its version."""
        return content_of(self.code) if self.code and not self.identity["code"] else {}

    @property
    def counts(self) -> dict[str, str]:
        """For a sink: per source, the node whose metrics say how much there is."""
        return {source: view.counts for source, view in self.views.items() if view.counts is not None}


@dataclass(frozen=True)
class Graph:
    """Every node by id, in an order in which inputs come first, and the chain of each source."""

    recipe: Recipe
    nodes: Mapping[str, Node]
    chains: Mapping[str, tuple[str, ...]]
    """Ids after the read node, in order."""

    def read_node(self, source: str) -> Node:
        return self.nodes[f"{source}/{INGEST}"]

    @property
    def derived(self) -> list[str]:
        """The sources whose documents a step on other routes makes."""
        return [name for name in self.chains if self.recipe.sources[name].parents]

    def declared(self, node: Node) -> Resources | None:
        """The resources that a stage declares for a task, for the largest part of its sources."""
        part_bytes = max((self.recipe.sources[source].part_bytes for source in node.sources), default=0)
        return stage_of(node.module).resources_of(node.config, part_bytes)

    @property
    def modules(self) -> list[str]:
        """The modules of Gristmill's own stages, in the order of the graph."""
        return list(dict.fromkeys(node.module for node in self.nodes.values() if not is_own(node.module)))

    @property
    def beyond(self) -> list[str]:
        """Steps of the recipe that come after the end of this graph (`until`)."""
        passed = {step.id for steps in self.recipe.routes.values() for step in steps}
        return [step.id for step in self.recipe.steps if step.id in passed and step.id not in self.nodes]

    @property
    def code(self) -> Code:
        """All of the user's own code."""
        return {name: source for node in self.nodes.values() for name, source in node.code.items()}


def drops(node: Node) -> bool:
    """Whether a step can remove a document from the corpus."""
    stage = stage_of(node.module)
    return isinstance(stage, LayerStage) and stage.judges and "drop" in stage.schema_of(node.config).names


def asks(node: Node) -> bool:
    """Whether a step asks servers outside."""
    stage = stage_of(node.module)
    return isinstance(stage, Map) and stage.scope_of(node.config) is not None


def asks_one_by_one(node: Node) -> bool:
    """Whether the tasks of such a step share servers; otherwise each starts one."""
    return asks(node) and isinstance(node.config, RequestFields) and bool(node.config.servers)


def reads_from(node: Node) -> set[str]:
    """Ids of the nodes whose layers and models a node reads."""
    reads = {f"{source}/{INGEST}" for source in node.sources}
    reads.update(layer for view in node.views.values() for layer in view.layers)
    reads.update(node.uses)
    return reads - {node.id, INGEST}  # the read node of each source represents INGEST


def build(recipe: Recipe, contents: ContentHashes, until: str | None = None) -> Graph:
    """The graph of a recipe, whole or up to and including the step `until`."""

    def identity_of(module: str, config: StageConfig, code: Code, line: int) -> Identity:
        try:
            return _stage_identity(module, config, code, contents)
        except UserError as error:
            if type(error) is not UserError or str(error).startswith(f"{recipe.path}:"):
                raise
            raise UserError(f"{recipe.path}:{line}: {error}") from None

    routes = _cut(recipe.routes, until)
    if until is not None and until != INGEST:
        known = sorted({name for steps in recipe.routes.values() for step in steps for name in (step.name, step.id)})
        if until not in known:
            near = nearest(until, known)
            raise UserError(
                f"{option('until', until)}: {recipe.path} has no such step. "
                + (f"Did you mean {near}? " if near else "")
                + f"Steps: {', '.join([INGEST, *known])}"
            )
    asked = {step.id for steps in routes.values() for step in steps}
    routes = {
        name: steps
        for name, steps in routes.items()
        if not recipe.sources[name].parents or recipe.sources[name].made_by in asked
    }
    nodes: dict[str, Node] = {}

    def add_reader(source: Source) -> None:
        identity, files = identity_of(source.module, source.config, source.code, source.line)
        node_id = f"{source.name}/{INGEST}"
        names = (*DOCUMENTS.names, *columns_of_source(source))
        facts = (node_id, INGEST, "read", (source.name,), names, identity)
        nodes[node_id] = Node(*facts, source.module, source.config, {}, 0, files=files, code=source.code)

    for name in routes:
        if not recipe.sources[name].parents:
            add_reader(recipe.sources[name])
    derived = {source.made_by: source for source in recipe.sources.values() if source.parents}
    last = {name: [_corpus_step(name, steps, recipe.routes[name])] for name, steps in routes.items()}
    if (counts := _copies_step(recipe, routes)) is not None:
        for steps in last.values():
            steps.insert(0, counts)
    if recipe.index and routes == {name: tuple(steps) for name, steps in recipe.routes.items()}:
        for name, steps in last.items():
            steps.append(Step(f"{name}/{INDEX}", INDEX, name, index.__name__, index.Config(source=name), 0))
    routes = {name: (*steps, *last[name]) for name, steps in routes.items()}
    columns: dict[int, tuple[str, ...]] = {}
    more = {name: columns_of_source(source) for name, source in recipe.sources.items()}
    views = {name: bind_steps(steps, columns, more[name]) for name, steps in routes.items()}
    positions: dict[str, dict[str, int]] = {}
    for name, route in routes.items():
        for position, step in enumerate(route, 1):
            positions.setdefault(step.id, {}).setdefault(name, position)
    for step in {step.id: step for step in (*recipe.steps, *chain(*last.values()))}.values():
        if found := positions.get(step.id):
            own_views = {name: views[name][step.id] for name in found}
            node = _node(step, own_views, max(found.values()), identity_of)
            nodes[step.id] = replace(node, where=f"{recipe.path}:{step.line}" if step.line else recipe.path)
            if step.id in derived:
                add_reader(derived[step.id])
    return Graph(recipe, nodes, {name: tuple(step.id for step in steps) for name, steps in routes.items()})


def bind_steps(
    route: Sequence[Step], known: dict[int, tuple[str, ...]] | None = None, more: Sequence[str] = ()
) -> dict[str, View]:
    """What each step of a route reads, by its id; a loaded recipe has everything that its steps need."""
    views = {}
    for step, binding in zip(route, bind_route(route, known, more), strict=True):
        if binding.absent:
            raise KeyError(f"{step.id} reads {', '.join(binding.absent)}, which no earlier step has")
        views[step.id] = binding.view
    return views


def _stage_identity(module: str, config: StageConfig, code: Code, contents: ContentHashes) -> Identity:
    """What a stage is: if anything here changes, its tasks run again. Files count by content, not by name."""
    files: dict[str, ConfigFile] = {}

    def content(location: str, _: object) -> str:
        files[location] = files.get(location) or find_config_file(location, contents)
        return files[location].content

    values = config.model_dump(mode="json", include=fields_of_output(config))
    named = place_files(type(config), values, (), content)
    stage = stage_of(module)
    identity = {
        "stage": module.removeprefix("gristmill.stages."),
        "version": stage.version,
        "config": named,
        "libraries": stage.libraries_of(config),
    }
    if others := stage.others(config) if stage.others else {}:
        called = {name: _stage_identity(other.module, other.config, {}, contents) for name, other in others.items()}
        identity["others"] = {name: other for name, (other, _) in called.items()}
        files |= {location: file for _, more in called.values() for location, file in more.items()}
    if code:
        identity["code"] = content_of(code) if stage.version is None else {}
        if stage.version is not None:  # what later steps rely on counts, whatever the pin says
            schema = stage.schema_of(config) if isinstance(stage, LayerStage) else ()
            identity["columns"] = {item.name: str(item.type) for item in schema}
    return identity, files


def _node(
    step: Step,
    views: Mapping[str, View],
    depth: int,
    identity_of: Callable[[str, StageConfig, Code, int], Identity],
) -> Node:
    stage = stage_of(step.module)
    reads_documents = not isinstance(stage, Fit) or stage.reads_of(step.config)
    kind = stage.kind if reads_documents else "asset"
    identity, files = identity_of(step.module, step.config, step.code, step.line)
    if kind == "asset":  # it is the same on every route
        views = {"": next(iter(views.values()))}
    facts = (step.id, step.name, kind, tuple(filter(None, views)), columns_of(step), identity)
    return Node(*facts, step.module, step.config, views, depth, files, step.code)


def make_asset_node(
    node_id: str, module: str, config: StageConfig, models: Mapping[str, str], contents: ContentHashes
) -> Node:
    """A node of a graph without documents: it makes a file from the files that its config names, and from models (name
    -> id of the node that makes the model).
    """
    identity, files = _stage_identity(module, config, {}, contents)
    facts = (node_id, node_id.rpartition("/")[2], "asset", (), (), identity)
    return Node(*facts, module, config, {"": View((), (), (), models)}, 0, files)


def _cut(routes: Mapping[str, Sequence[Step]], until: str | None) -> dict[str, tuple[Step, ...]]:
    """The routes up to and including the step `until`; a route without it ends before the first step that another route
    does not reach: a step for all sources that only gets some of them would give another corpus.
    """
    if until is None:
        return {name: tuple(steps) for name, steps in routes.items()}
    beyond: set[str] = set()
    for steps in routes.values():
        last = [index for index, step in enumerate(steps) if until in (step.name, step.id)]
        cut = steps if until == INGEST else steps[last[-1] + 1 :] if last else ()
        beyond.update(step.id for step in cut)
    return {name: tuple(takewhile(lambda step: step.id not in beyond, steps)) for name, steps in routes.items()}


def _corpus_step(source: str, steps: Sequence[Step], whole: Sequence[Step]) -> Step:
    """The last step of a route that may be cut short; the whole route determines whether its inputs need extraction."""
    layers = [step for step in steps if adds_layer(step) and judges(step)]
    extract = next((step.id for step in whole if extracts(step)), None)
    texts = [step.id for step in layers if "text_bytes" in columns_of(step)]
    if extract is None:
        texts = [INGEST, *texts]
    else:
        texts = texts[texts.index(extract) :] if extract in texts else []
    config = corpus.Config(steps=(INGEST, *(step.id for step in layers)), texts=tuple(texts))
    return Step(f"{source}/{CORPUS}", CORPUS, source, corpus.__name__, config, 0)


def _copies_step(recipe: Recipe, routes: Mapping[str, Sequence[Step]]) -> Step | None:
    """The step that counts the copies that dedup leaves; None without dedup, and if a step compares all texts."""
    ids = {step.id for steps in routes.values() for step in steps if step.name in _COMPARE_TEXTS}
    ids = ids or {step.id for steps in routes.values() for step in steps if step.name == "url_dedup"}
    has_snapshots = any(recipe.sources[name].snapshot for name in routes)
    last: dict[str, list[str]] = {}
    why, changes = dict[str, None](), dict[str, None]()
    for name, steps in routes.items():
        for position, step in enumerate(steps):
            if step.id in ids:
                scope: Scope = step.config.model_dump()["scope"]
                by = scope_reads(scope)
                partial = ("snapshot" in by and has_snapshots) or ("source" in by and len(routes) > 1)
                changed = [one.id for one in steps[position + 1 :] if "text" in columns_of(one)]
                if not partial and (step.name == "url_dedup" or not changed):
                    last.setdefault(step.id, []).append(name)
                elif partial:
                    why[f"{step.id} compares documents {SCOPE_WORDS[scope]}"] = None
                else:
                    changes[f"{changed[-1]} changes texts after {step.id}"] = None
    if not ids or any(len(names) == len(routes) for names in last.values()):
        return None
    without = [name for name, steps in routes.items() if not any(step.id in ids for step in steps)]
    names = sorted({step_id.rpartition("/")[2] for step_id in ids})
    one = names[0] if len(names) == 1 else "exact_dedup"
    fix = f"Put one `{one}` under `all`, after the steps that change texts"
    in_all = any(all(any(step.id == one for step in steps) for steps in routes.values()) for one in ids)
    if len(ids) > 1 and not in_all:
        why[f"{' and '.join(sorted(ids))} each compare the documents of their sources only"] = None
    elif len(ids) == 1 and why and not without:
        fix = f"Set `scope: global` for {next(iter(ids))}"
    if without:
        why[f"no dedup step compares the texts of {listed(without, 5)}"] = None
    config = copies_left.Config(why=(*why, *changes), fix=fix)
    return Step(COPIES, COPIES, "all", copies_left.__name__, config, 0)
