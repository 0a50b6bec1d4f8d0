"""Canaries: a fixed sample of documents for every step and decision, with the text before and after the step.

A step has the decision `kept`, and each reason for which it drops documents. The sample of a decision has the documents
with the smallest hashes of their ids, so it has the same documents in every version that makes the same decisions. To
compare two versions, the sample of the older one is followed: its documents are looked up in the newer one by id,
whatever happens to them there. Decisions that only the newer version makes have the newer version's sample.

Sampling reads ids and final verdicts; texts are read only for the sampled documents. Nothing is stored. The content of
a document that is withheld (`withheld.py`) or taken down in either version is not shown.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gristmill.engine.plan.facts import NodeFacts
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.kernels.hash.splitmix import mix
from gristmill.query.documents.layers import DocumentLayers
from gristmill.query.documents.lookup import find as find_documents
from gristmill.query.lineage.evidence import COLUMN as EVIDENCE
from gristmill.query.lineage.lineage import scores_of, walk
from gristmill.query.opening import check_finished
from gristmill.query.takedown import withheld
from gristmill.query.versions.diff import KEPT as NOT_DROPPED
from gristmill.query.versions.diff import Causes
from gristmill.recipe.checks.mistakes import suggest
from gristmill.recipe.sections.shards import GROUPS, TOKENS
from gristmill.recipe.sections.takedowns import TAKEDOWN
from gristmill.recipe.sections.tokenizer import TEXT
from gristmill.stages import COPIES, CORPUS, INDEX, INGEST, NO_DOCUMENT, STEPS
from gristmill.stages.buffers import one_chunk
from gristmill.stages.shared.keep_order import fixed_bytes
from gristmill.store.parquet import PartReader

NUMBER = 5
"""Documents of each decision of a step."""
MOST_CHARACTERS = 20_000
"""Characters of a text that are kept in memory and shown; changes after them are noticed, but not shown."""
KEPT = "kept"
_LATER = (CORPUS, INDEX, COPIES, TOKENS, GROUPS, TEXT)
"""Layers that decide nothing about a document and do not change its text."""
_NOT_SHOWN = (EVIDENCE, "locator")
"""Columns of a step that are neither scores nor short."""


@dataclass(frozen=True)
class TextOpening:
    """The first characters of a text."""

    text: str
    characters: int
    """Characters of the whole text."""
    digest: str
    """A hash of the whole text."""
    is_markup: bool
    """Whether this is the markup of a page before extraction."""


@dataclass(frozen=True)
class StepOutcome:
    """What a step did with a document in one version."""

    verdict: str
    """`kept`, the reason of the step, or why the step did not see the document."""
    reached: bool = False
    """Whether the document reached the step."""
    detail: str | None = None
    scores: Mapping[str, Any] = field(default_factory=dict)
    before: TextOpening | None = None
    """The text before the step; the markup before extraction."""
    after: TextOpening | None = None
    """The text that the step wrote; None if it writes no text."""


@dataclass(frozen=True)
class Canary:
    """A sampled document at a step."""

    step: str
    decision: str
    """The decision that it was sampled for."""
    doc_id: str
    source: str
    url: str | None
    locator: str
    now: StepOutcome
    old: StepOutcome | None = None
    """The outcome in the version that this one is compared with."""
    withheld: str | None = None
    """Why only id, source and verdicts are shown."""
    changes: tuple[str, ...] = ()
    """What differs between the versions: `verdict`, `text`, `scores`."""
    inherited: bool = False
    """Whether the changes are due to an earlier step: the document reaches the step with another text, or not at all.
    """


class _Drawn(NamedTuple):
    """A document that was drawn."""

    rank: int
    doc_id: bytes
    document: DocumentPart
    row: int


class _DocumentFacts(NamedTuple):
    """What one version says about a document."""

    source: str
    url: str | None
    locator: str
    withheld: str | None
    outcomes: Mapping[str, StepOutcome]


_Samples = Mapping[tuple[str, str], Sequence[_Drawn]]
"""By step and decision."""
_NO_STEP, _ABSENT = StepOutcome("no such step"), StepOutcome("not in this version")


def find(
    view: CorpusView, against: CorpusView | None = None, *, step: str | None = None, number: int = NUMBER
) -> list[Canary]:
    """The canaries of a corpus, in the order of the steps. With another version, the changed ones come first. `step` is
    the id or the name of a step.
    """
    views = [one for one in (view, against) if one is not None]
    for one in views:
        check_finished(one, "canaries")
    samples = [_draw(one, number) for one in views]
    followed = {**samples[0], **samples[-1]}
    names = dict.fromkeys(name for key, _ in followed for name in (key, key.rpartition("/")[2]))
    if step is not None and step not in names:
        raise UserError(f"{option('step', step)}: {view.label} has no such step. {suggest(step, names, 'Steps')}")
    order = {name: at for one in reversed(views) for at, name in enumerate(one.nodes)}
    chosen = {
        key: followed[key]
        for key in sorted(followed, key=lambda key: (order[key[0]], key[1] != KEPT, key[1]))
        if step in (None, key[0], key[0].rpartition("/")[2])
    }
    wanted: dict[bytes, set[str]] = {}
    for (name, _), drawn in chosen.items():
        for document in drawn:
            wanted.setdefault(document.doc_id, set()).add(name)
    known = [_look(one, wanted, some.values()) for one, some in zip(views, samples, strict=True)]
    found = [
        _canary(name, decision, document.doc_id, [facts.get(document.doc_id) for facts in known])
        for (name, decision), drawn in chosen.items()
        for document in drawn
    ]
    return sorted(found, key=_urgency)


def _urgency(one: Canary) -> tuple[bool, ...]:
    """Changes first; among them those of the step itself, and other verdicts before other texts and scores."""
    is_changed = bool(one.changes)
    return not is_changed, is_changed and one.inherited, is_changed and "verdict" not in one.changes


def shown_change(one: Canary) -> tuple[TextOpening | None, TextOpening | None]:
    """The two texts to compare: those after the step in both versions, if they differ; or those before and after the
    step. A side is None if there is no such text, or only markup.
    """
    if one.old is not None:
        sides = (one.old.after, one.now.after) if "text" in one.changes else (None, None)
    else:
        sides = (one.now.before, one.now.after)
    before, after = (None if side is None or side.is_markup else side for side in sides)
    return before, after


def _draw(view: CorpusView, number: int) -> _Samples:
    """The documents with the smallest hashes for each decision of each step.

    Every document has one final verdict, and each step before that one kept it. So the sample of the final verdicts,
    for each source, has the samples of all decisions.
    """
    causes = Causes()
    final: dict[tuple[str, int], list[_Drawn]] = {}
    for source in view.chains:
        for document in view.documents.get(source, ()):
            ids = one_chunk(PartReader(view.store, document.part).read(["doc_id"])["doc_id"])
            keys: Any = fixed_bytes(ids)[:, :8].copy().view("<u8").reshape(-1)
            ranks: Any = mix.py_func(keys)
            codes = causes.of(view, document)
            for code in np.unique(codes).tolist():
                rows = np.flatnonzero(codes == code)
                first = rows[np.argsort(ranks[rows], kind="stable")[:number]].tolist()
                drawn = [_Drawn(int(ranks[row]), ids[row].as_py(), document, row) for row in first]
                final[source, code] = _smallest([*final.get((source, code), ()), *drawn], number)
    samples: dict[tuple[str, str], list[_Drawn]] = {}
    for (source, code), drawn in final.items():
        by, reason = causes.known[code]
        if reason in NO_DOCUMENT:
            continue
        for step in _steps_of(view, source):
            is_last = code != NOT_DROPPED and by in (step, step.rpartition("/")[2])
            key = (step, reason if is_last else KEPT)
            samples[key] = _smallest([*samples.get(key, ()), *drawn], number)
            if is_last:
                break
    dropping = {step for step, decision in samples if decision != KEPT}
    return {key: drawn for key, drawn in samples.items() if key[0] in dropping or _is_written(view.nodes[key[0]])}


def _smallest(drawn: Iterable[_Drawn], number: int) -> list[_Drawn]:
    return sorted(drawn, key=lambda one: (one.rank, one.doc_id))[:number]


def changed_scores(old: StepOutcome, now: StepOutcome) -> Iterator[tuple[str, Any, Any]]:
    """Name, old and new value of the scores that differ, if the document reached the step in both versions."""
    for name in dict.fromkeys([*old.scores, *now.scores]) if old.reached and now.reached else ():
        values = old.scores.get(name), now.scores.get(name)
        if repr(values[0]) != repr(values[1]):  # as text, because NaN differs from itself
            yield name, *values


def _steps_of(view: CorpusView, source: str) -> list[str]:
    """The reader of a source and its steps that have a layer, in order."""
    layers = (step for step in view.chains[source] if view.nodes[step].has_layers)
    return [f"{source}/{INGEST}", *(step for step in layers if view.nodes[step].name not in _LATER)]


def _is_written(node: NodeFacts) -> bool:
    """Whether users write this step in recipes; others prepare a step and decide nothing."""
    return node.name in (*STEPS, INGEST, TAKEDOWN) or "code" in node.identity


def _look(
    view: CorpusView, wanted: Mapping[bytes, set[str]], samples: Iterable[Sequence[_Drawn]]
) -> dict[bytes, _DocumentFacts]:
    """What a version says about documents, at their steps. Drawn documents are known; others are looked up."""
    places = {one.doc_id: (one.document, one.row) for drawn in samples for one in drawn if one.doc_id in wanted}
    others = [doc_id.hex() for doc_id in wanted if doc_id not in places]
    places |= {one.doc_id: (one.document, one.row) for one in (find_documents(view, doc_id=others) if others else ())}
    found: dict[bytes, _DocumentFacts] = {}
    layers: DocumentLayers | None = None
    order = {document: at for some in view.documents.values() for at, document in enumerate(some)}
    for doc_id, (document, row) in sorted(
        places.items(), key=lambda item: (item[1][0].source, order[item[1][0]], item[1][1])
    ):
        if layers is None or layers.document is not document:
            layers = DocumentLayers(view, document)
        found[doc_id] = _facts(view, layers, row, wanted[doc_id])
    return found


def _facts(view: CorpusView, layers: DocumentLayers, row: int, steps: set[str]) -> _DocumentFacts:
    source = layers.document.source
    last = layers.value(f"{source}/{CORPUS}", "step", row) or ""
    hidden = withheld.list_of(view, layers.document, row)
    if hidden is None and last.rpartition("/")[2] == TAKEDOWN:
        hidden = TAKEDOWN
    url, locator = (layers.value(INGEST, name, row) for name in ("url", "locator"))
    return _DocumentFacts(source, url, locator, hidden, dict(_outcomes(view, layers, row, steps)))


def _outcomes(view: CorpusView, layers: DocumentLayers, row: int, steps: set[str]) -> Iterator[tuple[str, StepOutcome]]:
    """What each of these steps did with a row."""
    reader = f"{layers.document.source}/{INGEST}"
    left, is_markup = set(steps), False
    for layer, read, before, after in walk(layers, row):
        step = reader if layer == INGEST else layer
        was_markup, is_markup = is_markup, read.get("text") is None and (is_markup or layer == INGEST)
        if step in left:
            left.discard(step)
            scores = {name: value for name, value in scores_of(layer, read).items() if name not in _NOT_SHOWN}
            verdict = read["drop"] or KEPT
            texts = (_opening(before, was_markup), _opening(after, is_markup))
            yield step, StepOutcome(verdict, True, read["detail"], scores, *texts)
        if read["drop"] is not None:
            on_route = {reader, *view.chains[layers.document.source]}
            earlier = StepOutcome(f"dropped earlier: {read['drop']} by {step}")
            yield from ((one, earlier if one in on_route else _NO_STEP) for one in left)
            return
        if not left:
            return
    yield from ((one, _NO_STEP) for one in left)


def _opening(text: str | None, is_markup: bool) -> TextOpening | None:
    if text is None:
        return None
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return TextOpening(text[:MOST_CHARACTERS], len(text), digest, is_markup)


def _canary(step: str, decision: str, doc_id: bytes, sides: Sequence[_DocumentFacts | None]) -> Canary:
    """A canary from what the versions say about its document; the first is the one that is shown."""
    facts = next(one for one in sides if one is not None)
    outcomes = [_ABSENT if one is None else one.outcomes[step] for one in sides]
    hidden = next((one.withheld for one in sides if one is not None and one.withheld is not None), None)
    changes: tuple[str, ...] = ()
    inherited = False
    if len(sides) == 2:
        now, old = outcomes
        differs = {
            "verdict": now.verdict != old.verdict,
            "text": now.reached and old.reached and _digest(now.after) != _digest(old.after),
            "scores": any(changed_scores(old, now)),
        }
        changes = tuple(name for name, is_other in differs.items() if is_other)
        inherited = not (now.reached and old.reached) or _digest(now.before) != _digest(old.before)
    if hidden is not None:
        outcomes = [StepOutcome(one.verdict, one.reached) for one in outcomes]
    return Canary(
        step,
        decision,
        doc_id.hex(),
        facts.source,
        None if hidden is not None else facts.url,
        withheld.NOWHERE if hidden is not None else facts.locator,
        outcomes[0],
        outcomes[1] if len(sides) == 2 else None,
        hidden,
        changes,
        inherited,
    )


def _digest(text: TextOpening | None) -> str | None:
    return None if text is None else text.digest
