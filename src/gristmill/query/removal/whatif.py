"""What if a step had another config? Answered from stored columns, without running the pipeline.

Only the step itself is evaluated again; the verdicts of all other steps are reused. A document is added if the step
would keep it and no other step drops it; it is removed if the step would drop it and it is in the corpus now. Later
steps have not processed the added documents, and may decide differently without the removed ones. So each effect says
whether it is exact, a bound or an estimate (`StepEffect.bound`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import COPIES, CORPUS, INDEX, Node, bind_steps, drops
from gristmill.engine.schedule.corpus_view import DocumentPart
from gristmill.engine.schedule.run import Run
from gristmill.engine.work.borders import check_answers
from gristmill.engine.work.memory import available_cores
from gristmill.engine.work.rows import model_paths
from gristmill.engine.work.setup import with_loaded
from gristmill.errors import UserError
from gristmill.hints import hint
from gristmill.query.removal.changes import Change, parse_changes
from gristmill.recipe.checks.columns import INGEST, View, columns_of_source
from gristmill.recipe.sections.mix import MIX
from gristmill.recipe.sections.shards import SHARDS
from gristmill.recipe.sections.tokenizer import TOKENIZER
from gristmill.stages import NO_DOCUMENT
from gristmill.stages.contract import Map, StageConfig
from gristmill.stages.declarations import stage_of
from gristmill.stages.quality.cutoff_config import Config as Cutoffs
from gristmill.stages.select import corpus
from gristmill.store.parquet import join, open_parts

NO_DOCUMENTS = pa.array(sorted(NO_DOCUMENT), pa.string())
SAMPLES = 5
"""Documents of each kind that are shown as examples."""
DEDUP = "gristmill.stages.dedup."
RANKS = "gristmill.stages.quality.quality_ranks"


@dataclass
class Affected:
    """Documents that would be added, or removed."""

    documents: int = 0
    text_bytes: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """The reasons why they are dropped now, or would be."""
    samples: list[tuple[DocumentPart, int]] = field(default_factory=list)
    """Part and row."""


@dataclass
class StepEffect:
    """The effect of another config of a step. All counts are for the sources that have the step."""

    step: str
    sources: tuple[str, ...]
    changes: Mapping[str, tuple[Any, Any]]
    """Field -> (now, then)."""
    exceptions: tuple[str, ...] = ()
    """Settings that override a changed field for some documents."""
    read: int = 0
    """Documents that were read, without records that are not documents."""
    corpus: int = 0
    """Documents in the corpus now."""
    corpus_bytes: int = 0
    """The size of their texts."""
    come: Affected = field(default_factory=Affected)
    go: Affected = field(default_factory=Affected)
    later: tuple[str, ...] = ()
    """Steps that would still have to judge the added documents."""
    copies: tuple[str, ...] = ()
    """Later deduplication steps: if a removed document was the kept copy, they would keep another copy."""
    shares: tuple[str, ...] = ()
    """Later steps that keep a share of the documents that reach them."""
    shifting: tuple[str, ...] = ()
    """Later steps whose ranks or models depend on all their input, so that any verdict may change."""

    @property
    def bound(self) -> Literal["exact", "at_most", "at_least", "estimate"]:
        """Whether the new size of the corpus is exact, an upper bound, a lower bound or an estimate."""
        # Fewer documents before a share mean a smaller share, even if none of them is in the corpus now.
        share = self.shares and any(now != then for now, then in self.changes.values())
        fewer = share or (self.come.documents and self.later)
        more = self.go.documents and (self.copies or self.shares)
        if (fewer and more) or (self.shifting and self.come.documents + self.go.documents):
            return "estimate"
        return "at_most" if fewer else "at_least" if more else "exact"


def what_if(mill: Mill, run: Run, changes: Sequence[str]) -> list[StepEffect]:
    """Evaluate `step.field=value` changes over everything in the store, with an effect for each matching step."""
    wanted = parse_changes(mill, changes)
    check_run(mill, run, wanted)
    return [_step_effect(mill, run, one) for one in wanted]


def check_run(mill: Mill, run: Run, wanted: Sequence[Change]) -> None:
    """Raise UserError if a step that decides about the same documents has not run."""
    needed = {node_id for change in wanted for source in change.node.sources for node_id in _judging(mill, source)}
    if waiting := mill.recipe.as_written(node_id for node_id in run.unfinished() if node_id in needed):
        first = waiting[0]
        which = f"{len(waiting)} steps have not run with the current recipe (the first: {first})"
        raise UserError(
            f"{which if waiting[1:] else f'{first} has not run with the current recipe'}, so the effect on the whole "
            f"corpus is unknown. {run.to_finish}"
        )


def _judging(mill: Mill, source: str) -> list[str]:
    """The stages that decide which documents of a source are in the corpus: its reader and its steps. The stages of
    tokenizer, shards and mix come later and do not matter here.
    """
    after = {step.id for step in mill.recipe.steps if step.implied_by in (TOKENIZER, SHARDS, MIX)}
    chain = [node_id for node_id in mill.graph.chains[source] if node_id not in after]
    judges = [node_id for node_id in chain if mill.graph.nodes[node_id].name not in (CORPUS, COPIES, INDEX)]
    return [f"{source}/{INGEST}", *judges]


def _step_effect(mill: Mill, run: Run, change: Change) -> StepEffect:
    return Replay(mill, run, change, keeps=False).effect(change)


class Replay:
    """A step that is evaluated with several configs. The columns that it reads are in memory after the first one.

    Only candidates are evaluated: documents that no other step drops. No config of this step adds or removes others.
    """

    def __init__(self, mill: Mill, run: Run, change: Change, keeps: bool = True) -> None:
        """`change` is any config with the columns of all configs to come; without `keeps`, nothing stays in memory."""
        self._mill, self._run, self._keeps = mill, run, keeps
        self.node = change.node
        views = {name: _changed_view(mill, change.node, change.config, name) for name in change.node.sources}
        self._reads = replace(change.node, config=change.config, views=views)
        self._later = _later_steps(mill, change.node)
        self._documents = [document for source in change.node.sources for document in run.documents[source]]
        self._kept: dict[DocumentPart, list[ReplayedRows]] = {}

    def effect(self, change: Change, most_samples: int = SAMPLES) -> StepEffect:
        """The effect of another config. Raises UserError if it needs other columns than the first one."""
        if self._kept and not {*_reads(replace(self.node, config=change.config))} <= {*_reads(self._reads)}:
            raise UserError(f"This value of {', '.join(change.fields)} needs other columns. Nothing was evaluated.")
        effect = StepEffect(self.node.id, self.node.sources, change.fields, change.exceptions, **self._later)
        changed = replace(self._reads, config=change.config)
        # Threads are enough: reading, hashing and arithmetic all release the GIL.
        with ThreadPoolExecutor(available_cores()) as pool:
            for part in pool.map(lambda document: self._part_effect(changed, document, most_samples), self._documents):
                _add(effect, part, most_samples)
        return effect

    def _part_effect(self, changed: Node, document: DocumentPart, most_samples: int) -> StepEffect:
        effect = StepEffect(changed.id, changed.sources, {})
        models = model_paths(self._run.models(changed, document.source), self._mill.store)
        known = self._kept.get(document)
        found = _candidates(self._mill, self._run, self._reads, document) if known is None else known
        kept = []
        for candidates in found:
            effect.read += candidates.read
            _evaluate(effect, changed, document, candidates, models, most_samples)
            if self._keeps and known is None:
                kept.append(candidates)
        if kept:
            self._kept[document] = kept
        return effect


def _add(effect: StepEffect, part: StepEffect, most_samples: int) -> None:
    effect.read += part.read
    effect.corpus += part.corpus
    effect.corpus_bytes += part.corpus_bytes
    for side, more in ((effect.come, part.come), (effect.go, part.go)):
        side.documents += more.documents
        side.text_bytes += more.text_bytes
        side.reasons.update(more.reasons)
        side.samples += more.samples[: most_samples - len(side.samples)]


def _changed_view(mill: Mill, node: Node, config: StageConfig, source: str) -> View:
    """The columns that the changed step would read; every earlier layer is in the store."""
    route = mill.recipe.routes[source]
    steps = [replace(step, config=config) if step.id == node.id else step for step in route]
    try:
        more = columns_of_source(mill.recipe.sources[source])
        return bind_steps(steps[: [step.id for step in steps].index(node.id) + 1], None, more)[node.id]
    except KeyError as error:
        raise UserError(
            f"With this change {error.args[0]}, so nothing can be evaluated. Add the step that writes it above "
            f"{node.id} and run the recipe: {hint('run', recipe=mill.recipe.path)}"
        ) from None


def _reads(node: Node) -> tuple[str, ...]:
    return stage_of(node.module).reads_of(node.config)


def _all_reads(node: Node) -> set[str]:
    """All columns that a step reads, with those that may be missing."""
    return {*_reads(node), *stage_of(node.module, Map).may_read_of(node.config)}


def _later_steps(mill: Mill, node: Node) -> dict[str, Any]:
    """The fields `later`, `copies`, `shares` and `shifting` of the effect of a step."""
    chains = (_judging(mill, source) for source in node.sources)
    later = dict.fromkeys(other for chain in chains for other in chain[chain.index(node.id) + 1 :])
    nodes = mill.graph.nodes
    gated = [nodes[one] for one in later if any(view.gates for view in nodes[one].views.values())]
    judging = [one.id for one in gated if drops(one)]
    copies = [one.id for one in gated if one.kind == "exchange" and one.module.startswith(DEDUP)]
    shares = [one.id for one in gated if isinstance(one.config, Cutoffs) and one.config.dropped_shares]
    by_size = [one.id for one in gated if isinstance(one.config, Cutoffs) and one.config.by != "documents"]
    shifting = [one.id for one in gated if one.kind == "exchange" and not one.module.startswith((DEDUP, RANKS))]
    shifting += [one.id for one in gated if any(nodes[maker].kind == "fit" for maker in one.uses)]
    named = {"later": judging, "copies": copies, "shares": shares, "shifting": [*shifting, *by_size]}
    return {name: tuple(mill.recipe.as_written(steps)) for name, steps in named.items()}


@dataclass(frozen=True)
class ReplayedRows:
    """The rows of a row group that no other step drops."""

    read: int
    """Documents in the row group, candidates or not."""
    rows: npt.NDArray[np.int64]
    """Their numbers in the part."""
    columns: pa.RecordBatch
    """What the step reads."""
    drop: pa.Array
    """The reason why the step drops them now, or null."""
    size_before: pa.Array
    """Bytes of text before the step: the size of an added document."""
    size_now: pa.Array
    """Bytes of text in the corpus: the size of a removed document."""


def _candidates(mill: Mill, run: Run, node: Node, document: DocumentPart) -> Iterator[ReplayedRows]:
    source = document.source
    chain = [name for name in mill.graph.chains[source] if mill.graph.nodes[name].name != CORPUS]
    layers = {name: run.layer(name, document) for name in (INGEST, *chain) if run.has_layer(name, document)}
    view = node.views[source]
    final = mill.graph.nodes[f"{source}/{CORPUS}"].config
    assert isinstance(final, corpus.Config)
    steps = [name for name in final.steps if name in layers]
    others = [name for name in steps if name != node.id]
    used = [*view.layers, *(name for name in layers if name not in view.layers)]
    wanted = _all_reads(node)
    columns = tuple(entry for entry in view.columns if entry[2] in wanted)
    with_text = [name for name in layers if _has_text_bytes(mill, name, source)]
    up_to = [*layers][: [*layers].index(node.id) + 1]
    before, last = [name for name in with_text if name in up_to][-1], with_text[-1]
    more = [(used.index(before), "text_bytes", "size before"), (used.index(last), "text_bytes", "size now")]
    more += [(used.index(name), "drop", f"drop {name}") for name in steps]
    readers = open_parts(mill.store, [layers[name] for name in used])
    first_row = 0
    for batch in join(readers, (*columns, *more)):
        elsewhere = np.zeros(batch.num_rows, np.bool_)
        for name in others:
            elsewhere |= batch.column(f"drop {name}").is_valid().to_numpy(zero_copy_only=False)
        first = pc.coalesce(*(batch[f"drop {name}"] for name in steps))
        read = batch.num_rows - pc.sum(pc.is_in(first, NO_DOCUMENTS)).as_py()
        rows = np.flatnonzero(~elsewhere)
        chosen = batch.take(pa.array(rows))
        drop = chosen.column(f"drop {node.id}").dictionary_encode()  # a few reasons, many rows
        sizes = (chosen.column("size before"), chosen.column("size now"))
        yield ReplayedRows(read, first_row + rows, chosen.select(range(len(columns))), drop, *sizes)
        first_row += batch.num_rows


def _verdicts(node: Node, candidates: ReplayedRows, models: Mapping[str, Any]) -> pa.Array:
    """Why a step drops each candidate, or null."""
    stage = stage_of(node.module, Map)
    schema = stage.schema_of(node.config)
    answers = stage.apply(candidates.columns, node.config, **with_loaded(stage, node.config, models))
    answers = check_answers(answers, candidates.columns.num_rows, node.module, schema)
    return answers.column("drop") if "drop" in schema.names else pa.nulls(answers.num_rows, pa.string())


def _evaluate(
    effect: StepEffect,
    node: Node,
    document: DocumentPart,
    candidates: ReplayedRows,
    models: Mapping[str, Any],
    most_samples: int,
) -> None:
    """Add the effect on the rows of a row group."""
    then_reason = _verdicts(node, candidates, models)
    now, then = (one.is_valid().to_numpy(zero_copy_only=False) for one in (candidates.drop, then_reason))
    _count(effect.come, document, candidates.rows, now & ~then, candidates.drop, candidates.size_before, most_samples)
    _count(effect.go, document, candidates.rows, then & ~now, then_reason, candidates.size_now, most_samples)
    effect.corpus += int((~now).sum())
    effect.corpus_bytes += _sum(candidates.size_now, ~now)


def _count(
    side: Affected,
    document: DocumentPart,
    rows: npt.NDArray[np.int64],
    mask: npt.NDArray[np.bool_],
    reasons: pa.Array,
    size: pa.Array,
    most_samples: int,
) -> None:
    places = np.flatnonzero(mask)
    side.documents += len(places)
    side.text_bytes += _sum(size, mask)
    counts = reasons.take(pa.array(places)).value_counts().to_pylist()
    side.reasons.update({one["values"]: one["counts"] for one in counts})
    wanted = max(0, most_samples - len(side.samples))
    side.samples += [(document, int(rows[place])) for place in places[:wanted]]


def _sum(sizes: pa.Array, chosen: npt.NDArray[np.bool_]) -> int:
    return int(sizes.fill_null(0).to_numpy(zero_copy_only=False)[chosen].sum())


def _has_text_bytes(mill: Mill, layer: str, source: str) -> bool:
    if layer == INGEST:
        return True
    node = mill.graph.nodes[layer]
    return "text" in stage_of(node.module).schema_of(node.config).names
