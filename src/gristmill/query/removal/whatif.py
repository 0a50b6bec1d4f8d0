"""What if a step had another config? Answered from stored columns, without running the pipeline.

Only the step itself is evaluated again; the verdicts of all other steps stay as they are. A document comes when the
step would let it pass and no other step dropped it; it goes when the step would drop it and it is in the corpus now.
Steps after the changed one have not seen the documents that would come, and may decide otherwise without those that
would go: an answer says whether it is exact, a bound or an estimate (`StepEffect.bound`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import COPIES, CORPUS, INDEX, Node, bind_steps, drops
from gristmill.engine.schedule.corpus_view import Document
from gristmill.engine.schedule.run import Run
from gristmill.engine.work.borders import check_answers
from gristmill.engine.work.memory import available_cores
from gristmill.engine.work.rows import Batch, model_paths
from gristmill.engine.work.setup import with_loaded
from gristmill.errors import UserError
from gristmill.hints import hint
from gristmill.query.removal import whatif_clusters
from gristmill.query.removal.changes import NEAR_DEDUP, Change, parse_changes
from gristmill.query.removal.funnel import funnels
from gristmill.query.removal.whatif_mix import Mixture, remixed
from gristmill.recipe.checks.columns import INGEST, View
from gristmill.recipe.sections.mix import MIX
from gristmill.recipe.sections.shards import SHARDS
from gristmill.recipe.sections.tokenizer import TOKENIZER
from gristmill.stages import NO_DOCUMENT
from gristmill.stages.contract import Map, StageConfig
from gristmill.stages.declarations import stage_of
from gristmill.stages.select import corpus
from gristmill.store.parquet import join, open_parts

NO_DOCUMENTS = pa.array(sorted(NO_DOCUMENT), pa.string())
SAMPLES = 5
"""Documents of each kind that an answer shows."""
REASON = "near_duplicate"
DEDUP = "gristmill.stages.dedup."


@dataclass
class ChangedDocuments:
    """Documents that would come, or go."""

    documents: int = 0
    text_bytes: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Why they were dropped, or would be."""
    samples: list[tuple[Document, int]] = field(default_factory=list)
    """Part and row."""


@dataclass
class StepEffect:
    """What another config of a step would do. All counts are of documents of the sources that pass the step."""

    step: str
    sources: tuple[str, ...]
    changes: Mapping[str, tuple[Any, Any]]
    """Field -> (now, then)."""
    exceptions: tuple[str, ...] = ()
    """What decides in place of a changed field, for some documents."""
    read: int = 0
    """Documents that came in; records that never were any do not count."""
    corpus: int = 0
    """Documents in the corpus now."""
    corpus_bytes: int = 0
    """Of their texts."""
    come: ChangedDocuments = field(default_factory=ChangedDocuments)
    go: ChangedDocuments = field(default_factory=ChangedDocuments)
    later: tuple[str, ...] = ()
    """Steps that would still have to judge the documents that come."""
    copies: tuple[str, ...] = ()
    """Later steps that deduplicate: where a document that goes was the kept copy, they keep another one."""
    shifting: tuple[str, ...] = ()
    """Later steps whose ranks or models depend on all documents before them, so that any verdict may change."""
    may_be_fewer: bool = False
    """Whether fewer documents than counted may come, whatever later steps do."""

    @property
    def bound(self) -> Literal["exact", "at_most", "at_least", "estimate"]:
        """What the corpus would be at most or at least, where the number of its documents is not exact."""
        fewer = self.come.documents and (self.later or self.may_be_fewer)
        more = self.go.documents and self.copies
        if (fewer and more) or (self.shifting and self.come.documents + self.go.documents):
            return "estimate"
        return "at_most" if fewer else "at_least" if more else "exact"


def ask(mill: Mill, run: Run, changes: Sequence[str]) -> list[StepEffect] | Mixture:
    """Evaluate `step.field=value` changes over everything that the store holds; an answer for each step meant."""
    asked = parse_changes(mill, changes)
    if asked[0].node.name == MIX:
        return remixed(mill, run, asked[0])
    for change in asked:
        if change.node.name == NEAR_DEDUP:
            whatif_clusters.check(mill, change)
    needed = {node_id for change in asked for source in change.node.sources for node_id in _judging(mill, source)}
    if waiting := mill.recipe.as_written(node_id for node_id in run.unfinished() if node_id in needed):
        first = waiting[0]
        told = f"{len(waiting)} steps have not run as the recipe is now (the first: {first})"
        raise UserError(
            f"{told if waiting[1:] else f'{first} has not run as the recipe is now'}, so the question cannot be "
            f"answered for the whole corpus. {run.to_finish}"
        )
    return [(_ask_clusters if change.node.name == NEAR_DEDUP else _ask)(mill, run, change) for change in asked]


def _judging(mill: Mill, source: str) -> list[str]:
    """The stages of a source that decide what is in the corpus: its reader and its steps. Those that tokenizer, shards
    and mix stand for come behind, and what they lack is lacking in no answer.
    """
    behind = {step.id for step in mill.recipe.steps if step.stands_for in (TOKENIZER, SHARDS, MIX)}
    chain = [node_id for node_id in mill.graph.chains[source] if node_id not in behind]
    judges = [node_id for node_id in chain if mill.graph.nodes[node_id].name not in (CORPUS, COPIES, INDEX)]
    return [f"{source}/{INGEST}", *judges]


def _ask(mill: Mill, run: Run, change: Change) -> StepEffect:
    node = change.node
    views = {name: _changed_view(mill, node, change.config, name) for name in node.sources}
    changed = replace(node, config=change.config, views=views)
    answer = StepEffect(node.id, node.sources, change.fields, change.exceptions, **_later_steps(mill, node))
    documents = [document for source in node.sources for document in run.documents[source]]
    # Threads: reading, hashing and arithmetic all release the interpreter's lock.
    with ThreadPoolExecutor(available_cores()) as pool:
        for part in pool.map(lambda document: _ask_part(mill, run, changed, document), documents):
            _add(answer, part)
    return answer


def _ask_clusters(mill: Mill, run: Run, change: Change) -> StepEffect:
    node = change.node
    answer = StepEffect(node.id, node.sources, change.fields, **_later_steps(mill, node))
    sizes = {}
    for source, found in funnels(run).items():
        if source in node.sources:
            answer.read += found["read"]["rows"]
            answer.corpus += found["kept"]["rows"]
            answer.corpus_bytes += found["kept"]["text_bytes"]
            chain = mill.graph.chains[source]
            before = [INGEST, *chain[: chain.index(node.id)]]
            sizes[source] = [name for name in before if _has_text_bytes(mill, name, source)][-1]
    parted = whatif_clusters.parted(mill, run, change, sizes, SAMPLES)
    reasons = Counter({REASON: parted.documents} if parted.documents else {})
    answer.come = ChangedDocuments(parted.documents, parted.text_bytes, reasons, parted.places)
    answer.may_be_fewer = parted.is_bound
    return answer


def _add(answer: StepEffect, part: StepEffect) -> None:
    answer.read += part.read
    answer.corpus += part.corpus
    answer.corpus_bytes += part.corpus_bytes
    for side, more in ((answer.come, part.come), (answer.go, part.go)):
        side.documents += more.documents
        side.text_bytes += more.text_bytes
        side.reasons.update(more.reasons)
        side.samples += more.samples[: SAMPLES - len(side.samples)]


def _changed_view(mill: Mill, node: Node, config: StageConfig, source: str) -> View:
    """What the step would read: another config may want other columns, and every earlier layer is in the store."""
    route = mill.recipe.routes[source]
    steps = [replace(step, config=config) if step.id == node.id else step for step in route]
    try:
        return bind_steps(steps[: [step.id for step in steps].index(node.id) + 1])[node.id]
    except KeyError as error:
        raise UserError(
            f"With this change {error.args[0]}, so nothing can be evaluated. Add the step that writes it above "
            f"{node.id} and run the recipe: {hint('run', recipe=mill.recipe.path)}"
        ) from None


def _reads(node: Node) -> tuple[str, ...]:
    return stage_of(node.module).reads_of(node.config)


def _later_steps(mill: Mill, node: Node) -> dict[str, Any]:
    """`later`, `copies` and `shifting` of an answer about a step."""
    chains = (_judging(mill, source) for source in node.sources)
    later = dict.fromkeys(other for chain in chains for other in chain[chain.index(node.id) + 1 :])
    nodes = mill.graph.nodes
    gated = [nodes[one] for one in later if any(view.gates for view in nodes[one].views.values())]
    judging = [one.id for one in gated if drops(one)]
    copies = [one.id for one in gated if one.kind == "exchange" and one.module.startswith(DEDUP)]
    shifting = [one.id for one in gated if one.kind == "exchange" and not one.module.startswith(DEDUP)]
    shifting += [one.id for one in gated if any(nodes[maker].kind == "fit" for maker in one.uses)]
    named = {"later": judging, "copies": copies, "shifting": shifting}
    return {name: tuple(mill.recipe.as_written(steps)) for name, steps in named.items()}


def _ask_part(mill: Mill, run: Run, node: Node, document: Document) -> StepEffect:
    answer = StepEffect(node.id, node.sources, {})
    source, order = document.source, document.order
    stage = stage_of(node.module, Map)
    schema = stage.schema_of(node.config)
    layers = {INGEST: document.part}
    for name in mill.graph.chains[source]:
        if mill.graph.nodes[name].name != CORPUS and (source, order) in (made := run.states[name].layers):
            layers[name] = made[source, order][0]
    view = node.views[source]
    models = model_paths(run.models(node, source), mill.store)
    final = mill.graph.nodes[f"{source}/{CORPUS}"].config
    assert isinstance(final, corpus.Config)
    steps = [name for name in final.steps if name in layers]
    others = [name for name in steps if name != node.id]
    used = [*view.layers, *(name for name in layers if name not in view.layers)]
    wanted = {*_reads(node), *stage.may_read_of(node.config)}
    columns = tuple(entry for entry in view.columns if entry[2] in wanted)
    # A document that would come has no text behind the step, and one that would go has the corpus's.
    with_text = [name for name in layers if _has_text_bytes(mill, name, source)]
    up_to = [*layers][: [*layers].index(node.id) + 1]
    before, last = [name for name in with_text if name in up_to][-1], with_text[-1]
    more = [(used.index(before), "text_bytes", "size before"), (used.index(last), "text_bytes", "size now")]
    more += [(used.index(name), "drop", f"drop {name}") for name in steps]
    readers = open_parts(mill.store, [layers[name] for name in used])
    first_row = 0
    for batch in join(readers, (*columns, *more)):
        visible_columns = batch.select(range(len(columns)))
        gates = [f"drop {used[layer]}" for layer in view.gates if used[layer] in others]
        now = _dropped(batch, f"drop {node.id}")
        elsewhere = np.zeros(batch.num_rows, np.bool_)
        for name in others:
            elsewhere |= _dropped(batch, f"drop {name}")
        alive = np.ones(batch.num_rows, np.bool_)
        for gate in gates:
            alive &= ~_dropped(batch, gate)
        visible = Batch(visible_columns, first_row, alive)
        answers = stage.apply(visible.columns, node.config, **with_loaded(stage, node.config, models))
        answers = check_answers(answers, visible.columns.num_rows, node.module, schema)
        spread = dict(zip(schema.names, visible.spread(answers), strict=True))
        then_reason = spread["drop"] if "drop" in schema.names else pa.nulls(batch.num_rows, pa.string())
        then = then_reason.is_valid().to_numpy(zero_copy_only=False)
        come = (answer.come, now & ~then & ~elsewhere, batch.column(f"drop {node.id}"), batch.column("size before"))
        go = (answer.go, then & ~now & ~elsewhere, then_reason, batch.column("size now"))
        for side, mask, reasons, size in (come, go):
            _count(side, document, first_row, mask, reasons, size)
        kept = ~now & ~elsewhere
        first = pc.coalesce(*(batch[f"drop {name}"] for name in steps))
        answer.read += batch.num_rows - pc.sum(pc.is_in(first, NO_DOCUMENTS)).as_py()
        answer.corpus += int(kept.sum())
        answer.corpus_bytes += _sum(batch.column("size now"), kept)
        first_row += batch.num_rows
    return answer


def _count(
    side: ChangedDocuments,
    document: Document,
    first_row: int,
    mask: npt.NDArray[np.bool_],
    reasons: pa.Array,
    size: pa.Array,
) -> None:
    places = np.flatnonzero(mask)
    side.documents += len(places)
    side.text_bytes += _sum(size, mask)
    side.reasons.update(reasons.take(pa.array(places)).to_pylist())
    wanted = max(0, SAMPLES - len(side.samples))
    side.samples += [(document, first_row + int(row)) for row in places[:wanted]]


def _dropped(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.bool_]:
    dropped: npt.NDArray[np.bool_] = batch.column(name).is_valid().to_numpy(zero_copy_only=False)
    return dropped


def _sum(sizes: pa.Array, chosen: npt.NDArray[np.bool_]) -> int:
    return int(sizes.fill_null(0).to_numpy(zero_copy_only=False)[chosen].sum())


def _has_text_bytes(mill: Mill, layer: str, source: str) -> bool:
    if layer == INGEST:
        return True
    node = mill.graph.nodes[layer]
    return "text" in stage_of(node.module).schema_of(node.config).names
