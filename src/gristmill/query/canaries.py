"""Canaries: a fixed sample of documents for every step and decision, with the text before and after the step.

The decisions of a step are `kept` and each reason for which it drops documents. The sample of a decision has the
documents with the smallest hashes of their ids. To compare two versions, the sample of the older one is followed: its
documents are looked up in the newer one by id, whatever happens to them there. Decisions that only the newer version
makes have the newer version's sample.

Sampling reads ids and final verdicts; texts are read for the sampled documents only. Nothing is stored. The content of
a document that is withheld (`withheld.py`) or taken down in either version is not shown.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import Any

import numpy as np

from gristmill.counted import value_text
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.kernels.hash.splitmix import mix
from gristmill.query.documents.layers import DocumentLayers
from gristmill.query.documents.lookup import find as find_documents
from gristmill.query.documents.word_changes import SAME, WordChange, word_changes
from gristmill.query.lineage.evidence import COLUMN as EVIDENCE
from gristmill.query.lineage.lineage import scores_of, walk
from gristmill.query.opening import check_finished
from gristmill.query.takedown import withheld
from gristmill.query.versions.diff import KEPT as NOT_DROPPED
from gristmill.query.versions.diff import Causes
from gristmill.recipe.checks.mistakes import suggest
from gristmill.stages import INGEST, NO_DOCUMENT, STEPS, TAKEDOWN
from gristmill.stages.buffers import fixed_bytes, one_chunk
from gristmill.store.parquet import PartReader

NUMBER = 5
"""Documents of each decision of a step."""
MOST_CHARACTERS = 20_000
"""Characters of a text that are kept in memory and shown; a change after them is noticed, but not shown."""
OPENING_CHARACTERS = 240
"""Characters shown of a text without a difference."""
KEPT = "kept"


@dataclass(frozen=True)
class TextOpening:
    """The first characters of a text."""

    text: str
    characters: int
    """Characters of the whole text."""
    digest: str
    """A hash of the whole text."""
    is_markup: bool
    """Whether this is a page before extraction."""


@dataclass(frozen=True)
class StepOutcome:
    """What a step did with a document in one version."""

    verdict: str
    """`kept`, the reason of the step, or why the document did not reach the step."""
    reached: bool = False
    detail: str | None = None
    scores: Mapping[str, Any] = field(default_factory=dict)
    before: TextOpening | None = None
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
    origin: str
    """The URL, or else the position in the input."""
    now: StepOutcome
    old: StepOutcome | None = None
    """The outcome in the other version, if versions are compared."""
    changes: tuple[str, ...] = ()
    """What differs between the versions: `verdict`, `text`, `scores`."""
    inherited: bool = False
    """Whether an earlier step is the cause: the document reaches this one with another text, or not in both versions.
    """

    @property
    def title(self) -> str:
        """The group that it is shown in."""
        state = "unchanged" if not self.changes else "changed by an earlier step" if self.inherited else "changed"
        return f"{self.step}: {self.decision if self.old is None else state}"

    @property
    def verdict(self) -> str:
        """The verdict and its detail; `old -> new` if the versions differ."""
        old = f"{self.old.verdict} -> " if self.old is not None and "verdict" in self.changes else ""
        return f"{old}{self.now.verdict}{f': {self.now.detail}' if self.now.detail else ''}"

    @property
    def scores(self) -> list[str]:
        """The scores, or those that differ between the versions, each with its name."""
        if self.old is None:
            return [f"{name} {value_text(value)}" for name, value in self.now.scores.items()]
        sides = (self.old.scores, self.now.scores) if self.old.reached and self.now.reached else ({}, {})
        shown = (
            (name, *(value_text(side.get(name)) for side in sides)) for name in dict.fromkeys((*sides[0], *sides[1]))
        )
        return [f"{name} {old} -> {now}" for name, old, now in shown if old != now]

    @property
    def words(self) -> list[WordChange]:
        """The words that differ before and after the step, or between versions; else the opening of the text."""
        sides = (self.now.before, self.now.after) if self.old is None else (self.old.after, self.now.after)
        before, after = (None if side is None or side.is_markup else side for side in sides)
        if before is not None and after is not None and before != after:
            return word_changes(before.text, after.text)
        shown = None if self.old is not None else after or before
        return [] if shown is None else [WordChange(SAME, f"{shown.text[:OPENING_CHARACTERS]} …")]


_Drawn = tuple[int, bytes, DocumentPart, int]
"""The rank and id of a document, its part and row."""
_Samples = dict[tuple[str, str], list[_Drawn]]
"""By step and decision."""
_Facts = tuple[str, str, str | None, Mapping[str, StepOutcome]]
"""Source, origin, why it is withheld, and outcomes by step."""


def find(
    view: CorpusView, against: CorpusView | None = None, *, step: str | None = None, number: int = NUMBER
) -> list[Canary]:
    """The canaries of a corpus, in the order of its steps. With another version, the changed ones come first: those
    that the step itself changed, then those that an earlier step changed. `step` is the id or the name of a step.
    """
    views = [view] if against is None else [view, against]
    samples = [_draw(one, number) for one in views]
    followed = samples[0] | samples[-1]
    names = {name: step_id for step_id, _ in followed for name in (step_id, step_id.rpartition("/")[2])}
    if step is not None and step not in names:
        raise UserError(f"{option('step', step)}: {view.label} has no such step. {suggest(step, names, 'Steps')}")
    wanted: dict[bytes, set[str]] = {}
    for (name, _), drawn in followed.items():
        for _, doc_id, *_ in drawn if step in (None, name, name.rpartition("/")[2]) else ():
            wanted.setdefault(doc_id, set()).add(name)
    facts = [_look(one, wanted, drawn) for one, drawn in zip(views, samples, strict=True)]
    order = {name: at for one in reversed(views) for at, name in enumerate(one.nodes)}
    found = [
        _canary(*key, doc_id, [some.get(doc_id) for some in facts])
        for key, drawn in sorted(followed.items(), key=lambda item: (order[item[0][0]], item[0][1] != KEPT, item[0]))
        for _, doc_id, *_ in drawn
        if key[0] in wanted.get(doc_id, ())
    ]
    return sorted(found, key=lambda one: (not one.changes, one.inherited) if one.changes else (True, False))


def _draw(view: CorpusView, number: int) -> _Samples:
    """The documents with the smallest hashes for each decision of each step.

    A document has one final verdict, and every step before that one kept it. So the samples of the final verdicts, by
    source, contain the samples of all decisions.
    """
    check_finished(view, "canaries")
    causes, final, samples = Causes(), dict[tuple[str, int], list[_Drawn]](), _Samples()
    for document in (one for source in view.chains for one in view.documents.get(source, ())):
        ids = one_chunk(PartReader(view.store, document.part).read(["doc_id"])["doc_id"])
        keys: Any = fixed_bytes(ids)[:, :8].copy().view("<u8").reshape(-1)
        ranks: Any = mix.py_func(keys)
        codes = causes.of(view, document)
        for code in np.unique(codes).tolist():
            rows = np.flatnonzero(codes == code)
            first = rows[np.argsort(ranks[rows], kind="stable")[:number]].tolist()
            drawn = [(int(ranks[row]), ids[row].as_py(), document, row) for row in first]
            _keep(final, (document.source, code), drawn, number)
    for (source, code), drawn in final.items():
        by, reason = causes.known[code]
        for step in (f"{source}/{INGEST}", *view.chains[source]) if reason not in NO_DOCUMENT else ():
            is_last = code != NOT_DROPPED and by in (step, step.removeprefix(f"{source}/"))
            if is_last or _decides(view, step):
                _keep(samples, (step, reason if is_last else KEPT), drawn, number)
            if is_last:
                break
    return samples


def _keep(samples: dict[Any, list[_Drawn]], key: tuple[str, Any], drawn: Sequence[_Drawn], number: int) -> None:
    """Add documents to a sample, and keep those with the smallest hashes."""
    samples[key] = nsmallest(number, [*samples.get(key, ()), *drawn], key=lambda one: one[:2])


def _decides(view: CorpusView, step: str) -> bool:
    """Whether users write this step in recipes; others prepare steps and decide nothing."""
    node = view.nodes[step]
    return node.name in (*STEPS, INGEST, TAKEDOWN) or (node.has_layers and "code" in node.identity)


def _look(view: CorpusView, wanted: Mapping[bytes, set[str]], samples: _Samples) -> dict[bytes, _Facts]:
    """What a version says about documents at their steps. Drawn documents are known; others are looked up."""
    places = {doc_id: (part, row) for drawn in samples.values() for _, doc_id, part, row in drawn if doc_id in wanted}
    if others := [doc_id.hex() for doc_id in wanted if doc_id not in places]:
        places |= {one.doc_id: (one.document, one.row) for one in find_documents(view, doc_id=others)}
    found: dict[bytes, _Facts] = {}
    layers: DocumentLayers | None = None
    for doc_id, (document, row) in sorted(places.items(), key=lambda item: (item[1][0].part.hash, item[1][1])):
        if layers is None or layers.document is not document:
            layers = DocumentLayers(view, document)
        hidden = withheld.why_withheld(view, document, row)
        origin = layers.value(INGEST, "url", row) or layers.value(INGEST, "locator", row)
        found[doc_id] = (document.source, origin, hidden, dict(_outcomes(view, layers, row, wanted[doc_id])))
    return found


def _outcomes(view: CorpusView, layers: DocumentLayers, row: int, steps: set[str]) -> Iterator[tuple[str, StepOutcome]]:
    """What each of these steps did with a row."""
    reader = f"{layers.document.source}/{INGEST}"
    route = {reader, *view.chains[layers.document.source]}
    is_markup, why = False, "did not reach the step"
    for layer, read, before, after in walk(layers, row):
        step = reader if layer == INGEST else layer
        was_markup, is_markup = is_markup, read.get("text") is None and (is_markup or layer == INGEST)
        if step in steps:
            scores = {
                name: value for name, value in scores_of(layer, read).items() if name not in (EVIDENCE, "locator")
            }
            texts = _opening(before, was_markup), _opening(after, is_markup)
            yield step, StepOutcome(read["drop"] or KEPT, True, read["detail"], scores, *texts)
        route.discard(step)
        why = f"dropped earlier: {read['drop']} by {step}"
        if steps.isdisjoint(route):
            break
    yield from ((step, StepOutcome(why)) for step in steps & route)


def _opening(text: str | None, is_markup: bool) -> TextOpening | None:
    if text is None:
        return None
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return TextOpening(text[:MOST_CHARACTERS], len(text), digest, is_markup)


def _canary(step: str, decision: str, doc_id: bytes, sides: Sequence[_Facts | None]) -> Canary:
    """A canary from what the versions say about its document; the first version is the one that is shown."""
    source, origin, *_ = next(side for side in sides if side is not None)
    hidden = next((side[2] for side in sides if side is not None and side[2] is not None), None)
    absent, no_step = StepOutcome("not in this version"), StepOutcome("no such step")
    outcomes = [absent if side is None else side[3].get(step, no_step) for side in sides]
    now, old = outcomes[0], outcomes[1] if outcomes[1:] else None
    one = Canary(step, decision, doc_id.hex(), source, origin, now, old)
    if old is not None:
        both = now.reached and old.reached
        differs = {"verdict": now.verdict != old.verdict, "text": both and now.after != old.after}
        differs["scores"] = bool(one.scores)
        changes = tuple(name for name, is_other in differs.items() if is_other)
        one = replace(one, changes=changes, inherited=not both or now.before != old.before)
    if hidden is not None:
        bare = [StepOutcome(outcome.verdict, outcome.reached) for outcome in outcomes]
        one = replace(one, origin=withheld.withheld_note(hidden), now=bare[0], old=bare[1] if bare[1:] else None)
    return one
