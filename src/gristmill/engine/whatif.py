"""What if a step had another config? Answered from stored columns, without running the pipeline.

Only the step itself is evaluated again; the verdicts of all other steps stay as they are. A document comes when the
step would let it pass and no other step dropped it; it goes when the step would drop it and it is in the corpus now.
Steps behind the changed one that work on survivors alone (deduplication) have not seen the documents that would come.
"""

import importlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import yaml
from pydantic import ValidationError

from gristmill.engine.borders import check_answers
from gristmill.engine.graph import CORPUS, Node, View, bind
from gristmill.engine.mill import Mill, available_cores
from gristmill.engine.rows import Batch
from gristmill.engine.run import Run
from gristmill.engine.seen import Document
from gristmill.errors import UserError
from gristmill.recipe.columns import INGEST
from gristmill.recipe.mistakes import nearest
from gristmill.recipe.plain_words import tell
from gristmill.recipe.settings import NamesWith, below
from gristmill.stages.contract import StageConfig
from gristmill.stages.resolve import may_read_of, reads_of, schema_of
from gristmill.store.parquet import PartReader, join

SAMPLES = 5
"""Documents of each kind that an answer shows."""


@dataclass
class Side:
    """Documents that would come, or go."""

    documents: int = 0
    text_bytes: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Why they were dropped, or would be."""
    samples: list[tuple[Document, int]] = field(default_factory=list)
    """Part and row."""


@dataclass
class Answer:
    """What a change of config would do."""

    step: str
    changes: dict[str, tuple[Any, Any]]
    """Field -> (now, then)."""
    seen: int = 0
    """Documents that were looked at."""
    corpus: int = 0
    """Documents in the corpus now."""
    come: Side = field(default_factory=Side)
    go: Side = field(default_factory=Side)
    later: tuple[str, ...] = ()
    """Steps that would still have to judge the documents that come."""


def ask(mill: Mill, run: Run, changes: Sequence[str]) -> Answer:
    """Evaluate `step.field=value` changes of one step over everything that the store holds."""
    node, config, fields = parse_changes(mill, changes)
    open_parts = [name for name in mill.graph.nodes if run.made[name].missing or run.made[name].waiting]
    if open_parts:
        raise UserError(
            f"{', '.join(open_parts)} did not run to the end, so the question cannot be answered for the whole corpus. "
            f"First: gristmill run {mill.recipe.path}"
        )
    views = {name: _changed_view(mill, node, config, name) for name in node.sources}
    changed = replace(node, config=config, views=views)
    answer = Answer(node.id, fields, later=_later_steps(mill, node))
    documents = [document for source in node.sources for document in run.documents[source]]
    # Threads: reading, hashing and arithmetic all release the interpreter's lock.
    with ThreadPoolExecutor(available_cores()) as pool:
        for part in pool.map(lambda document: _ask_part(mill, run, changed, document), documents):
            _add(answer, part)
    return answer


def _add(answer: Answer, part: Answer) -> None:
    answer.seen += part.seen
    answer.corpus += part.corpus
    for side, more in ((answer.come, part.come), (answer.go, part.go)):
        side.documents += more.documents
        side.text_bytes += more.text_bytes
        side.reasons.update(more.reasons)
        side.samples += more.samples[: SAMPLES - len(side.samples)]


def parse_changes(mill: Mill, changes: Sequence[str]) -> tuple[Node, StageConfig, dict[str, tuple[Any, Any]]]:
    """The step that is meant, its config after the changes, and what changed."""
    wanted: dict[str, dict[str, Any]] = {}
    for change in changes:
        path, equals, value = change.partition("=")
        step, dot, name = path.partition(".")
        if not equals or not dot:
            raise UserError(
                f"{change!r} is not a change. Write STEP.FIELD=VALUE: heuristics.gopher_quality.min_words=30"
            )
        try:
            wanted.setdefault(step, {})[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise UserError(f"{change!r}: {value!r} is not a YAML value.") from None
    if len(wanted) != 1:
        raise UserError(f"The changes are to {' and '.join(wanted)}. Ask about one step at a time.")
    step, fields = next(iter(wanted.items()))
    nodes = [node for node in mill.graph.nodes.values() if node.kind == "map" and node.name != CORPUS]
    found = [node for node in nodes if step in (node.id, node.name)]
    names = sorted({node.id for node in nodes})
    if not found:
        _refuse_others(mill, step, names)
        near = nearest(step, sorted({name for node in nodes for name in (node.id, node.name)}))
        hint = f"Did you mean {near}? " if near else ""
        raise UserError(
            f"{mill.recipe.path} has no step {step} that could be asked about. {hint}Steps: {', '.join(names)}"
        )
    if len(found) > 1:
        used = [node for node in found if all(_is_set(node, path) for path in fields)]
        found = used if len(used) == 1 else found
    if len(found) > 1:
        raise UserError(f"{step} stands in several routes. Say which: {', '.join(node.id for node in found)}")
    return found[0], *_changed_config(found[0], fields)


def _refuse_others(mill: Mill, step: str, names: Sequence[str]) -> None:
    """A step that is there and cannot be asked is not said to be missing."""
    for node in mill.graph.nodes.values():
        if step in (node.id, node.name):
            raise UserError(
                f"{node.id} looks at many documents together, so what another config would do is not known before it "
                f"has run. Change it in {mill.recipe.path} and see: gristmill plan {mill.recipe.path}. "
                f"Steps that can be asked about: {', '.join(names)}"
            )


def _is_set(node: Node, path: str) -> bool:
    """Whether a step's config has something at the first part of a path: thresholds of a rule set that it uses."""
    return node.config.model_dump(mode="json").get(path.split(".")[0]) is not None


def _changed_config(node: Node, fields: dict[str, Any]) -> tuple[StageConfig, dict[str, tuple[Any, Any]]]:
    values = node.config.model_dump(mode="json")
    before_after = {}
    for path, value in fields.items():
        *outer, last = path.split(".")
        inner: Any = values
        kind: Any = type(node.config)
        for place, name in enumerate(outer):
            kind = _kind_of(node, kind, outer[: place + 1])
            if inner.get(name) is None:
                inner[name] = {}
            inner = inner[name]
        _kind_of(node, kind, [*outer, last])
        before_after[path] = (inner.get(last), value)
        inner[last] = value
    try:
        return type(node.config).model_validate(values), before_after
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(str(part) for part in first["loc"])
        same = [other for other in error.errors() if other["loc"][:-1] == first["loc"][:-1] or other is first]
        told = tell(f"{node.name}.{at}" if at else node.name, same, first["input"])
        raise UserError(f"{told} Nothing was evaluated.") from None


def _kind_of(node: Node, kind: Any, path: Sequence[str]) -> Any:
    """What lies at the end of a path below `kind`: another config, or names with configs, or a plain value (None)."""
    if isinstance(kind, NamesWith):
        return kind.config
    if kind is None:
        raise UserError(
            f"{node.name}.{'.'.join(path[:-1])} is a value of its own, so {'.'.join(path)} is not a field. "
            f"Write {node.name}.{'.'.join(path[:-1])}=VALUE."
        )
    known = kind.model_fields
    if path[-1] not in known:
        near = nearest(path[-1], list(known))
        hint = f" Did you mean {near}?" if near else ""
        raise UserError(f"{node.name}.{'.'.join(path)} is not a field.{hint} Fields: {', '.join(known)}")
    return below(known[path[-1]])


def _changed_view(mill: Mill, node: Node, config: StageConfig, source: str) -> View:
    """What the step would read: another config may want other columns, and every earlier layer is in the store."""
    route = mill.recipe.routes[source]
    steps = [replace(step, config=config) if step.id == node.id else step for step in route]
    try:
        return bind(next(step for step in steps if step.id == node.id), steps)
    except KeyError as error:
        raise UserError(
            f"With this change {error.args[0]}, so nothing can be evaluated. Add the step that writes it above "
            f"{node.id} and run the recipe: gristmill run {mill.recipe.path}"
        ) from None


def _reads(node: Node) -> tuple[str, ...]:
    return reads_of(importlib.import_module(node.module), node.config)


def _later_steps(mill: Mill, node: Node) -> tuple[str, ...]:
    later = []
    for source in node.sources:
        chain = mill.graph.chains[source]
        for node_id in chain[chain.index(node.id) + 1 :]:
            other = mill.graph.nodes[node_id]
            if any(view.gates for view in other.views.values()) and node_id not in later:
                later.append(node_id)
    return tuple(later)


def _ask_part(mill: Mill, run: Run, node: Node, document: Document) -> Answer:
    answer = Answer(node.id, {})
    source, order = document.source, document.order
    module = importlib.import_module(node.module)
    schema = schema_of(module, node.config)
    chain = [name for name in mill.graph.chains[source] if mill.graph.nodes[name].has_layers]
    layers = {INGEST: document.part, **{name: run.made[name].layers[source, order][0] for name in chain}}
    view = node.views[source]
    others = [name for name in layers if name not in (node.id, f"{source}/{CORPUS}")]
    used = [*view.layers, *(name for name in (*others, node.id) if name not in view.layers)]
    wanted = {*_reads(node), *may_read_of(module, node.config)}
    columns = tuple(entry for entry in view.columns if entry[2] in wanted)
    # A document that would come has no text behind the step, and one that would go has the corpus's.
    with_text = [name for name in layers if _has_text_bytes(mill, name, source)]
    up_to = [*layers][: [*layers].index(node.id) + 1]
    before, last = [name for name in with_text if name in up_to][-1], with_text[-1]
    more = [(used.index(before), "text_bytes", "size before"), (used.index(last), "text_bytes", "size now")]
    more += [(used.index(node.id), "drop", "drop now")]
    more += [(used.index(name), "drop", f"drop {name}") for name in others]
    readers = [PartReader(mill.store, layers[name]) for name in used]
    first_row = 0
    for batch in join(readers, (*columns, *more)):
        seen = batch.select(range(len(columns)))
        gates = [f"drop {used[layer]}" for layer in view.gates if used[layer] in others]
        now = _dropped(batch, "drop now")
        elsewhere = np.zeros(batch.num_rows, np.bool_)
        for name in others:
            elsewhere |= _dropped(batch, f"drop {name}")
        alive = np.ones(batch.num_rows, np.bool_)
        for gate in gates:
            alive &= ~_dropped(batch, gate)
        visible = Batch(seen, first_row, alive)
        answers = module.apply(visible.columns, node.config)
        answers = check_answers(answers, visible.columns.num_rows, node.module, schema)
        spread = dict(zip(schema.names, visible.spread(answers), strict=True))
        then_reason = spread["drop"] if "drop" in schema.names else pa.nulls(batch.num_rows, pa.string())
        then = then_reason.is_valid().to_numpy(zero_copy_only=False)
        come = (answer.come, now & ~then & ~elsewhere, batch.column("drop now"), batch.column("size before"))
        go = (answer.go, then & ~now & ~elsewhere, then_reason, batch.column("size now"))
        for side, mask, reasons, size in (come, go):
            _count(side, document, first_row, mask, reasons, size)
        answer.seen += batch.num_rows
        answer.corpus += int((~now & ~elsewhere).sum())
        first_row += batch.num_rows
    return answer


def _count(
    side: Side, document: Document, first_row: int, mask: npt.NDArray[np.bool_], reasons: pa.Array, size: pa.Array
) -> None:
    places = np.flatnonzero(mask)
    side.documents += len(places)
    side.text_bytes += int(size.fill_null(0).to_numpy(zero_copy_only=False)[places].sum())
    side.reasons.update(reasons.take(pa.array(places)).to_pylist())
    wanted = max(0, SAMPLES - len(side.samples))
    side.samples += [(document, first_row + int(row)) for row in places[:wanted]]


def _dropped(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.bool_]:
    dropped: npt.NDArray[np.bool_] = batch.column(name).is_valid().to_numpy(zero_copy_only=False)
    return dropped


def _has_text_bytes(mill: Mill, layer: str, source: str) -> bool:
    if layer == INGEST:
        return True
    node = mill.graph.nodes[layer]
    return node.name != CORPUS and "text" in schema_of(importlib.import_module(node.module), node.config).names
