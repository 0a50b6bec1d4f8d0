"""Canaries (query/canaries.py) as a page without scripts, and as a section of the report."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from gristmill.counted import counted
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.query.canaries import Canary, StepOutcome, TextOpening, changed_scores, find, shown_change
from gristmill.query.documents.word_changes import WordChange, around_changes, word_changes
from gristmill.query.takedown.withheld import withheld_note
from gristmill.report import markup
from gristmill.report.corpus.sections import Section
from gristmill.report.markup import escaped, table

TAGS = {"removed": "del", "added": "ins"}
OPENING_CHARACTERS = 600
"""Characters shown of a text without a difference; the whole text is folded below."""
SHORTENED = 40
"""Characters of a score that are shown."""


def canary_sections(view: CorpusView, against: CorpusView | None) -> list[Section]:
    """The canaries that changed since another version, without texts; no section without another version."""
    if against is None:
        return []
    found = find(view, against)
    changed = [one for one in found if one.changes]
    rows = [
        (
            one.step,
            one.doc_id,
            "" if one.old is None else one.old.verdict,
            one.now.verdict,
            ", ".join(one.changes),
            "an earlier step" if one.inherited else "this step",
        )
        for one in changed
    ]
    total = counted(len(found), "canary", "canaries")
    text = (
        f"{len(changed):,} of {total} changed. Canaries are a fixed sample of documents for each decision of each "
        "step, chosen by the hash of their ids."
    )
    head = ("step", "document", "verdict before", "verdict now", "changed", "cause")
    return [Section("Canaries", text, head, rows, word_columns=len(head))]


def page(name: str, against: str | None, found: Sequence[Canary]) -> str:
    """A page with all canaries; changed ones come first."""
    changed = [one for one in found if one.changes]
    title = f"Canaries of {name}"
    parts = [f"<h1>{escaped(title)}</h1>"]
    total = counted(len(found), "canary", "canaries")
    if against is not None:
        parts.append(f"<p>Compared with {escaped(against)}: {len(changed):,} of {total} changed.</p>")
        steps = Counter((one.step, one.inherited) for one in changed)
        rows = [
            (step, "an earlier step" if inherited else "this step", f"{count:,}")
            for (step, inherited), count in steps.items()
        ]
        parts += [table(("step", "cause", "changed"), rows, left=2)] if rows else []
    else:
        parts.append(f"<p>{total}, chosen by the hash of their ids for each decision of each step.</p>")
    last = ""
    for one in found:
        heading = one.step if one.changes else f"{one.step}: {one.decision}"
        heading += " (changed by an earlier step)" if one.changes and one.inherited else ""
        heading += " (changed)" if one.changes and not one.inherited else ""
        if heading != last:
            parts.append(f"<h2>{escaped(heading)}</h2>")
            last = heading
        parts.append(_article(one))
    return markup.page(title, parts)


def _article(one: Canary) -> str:
    verdict = escaped(one.now.verdict)
    if one.old is not None and "verdict" in one.changes:
        verdict = f"{escaped(one.old.verdict)} → <b>{verdict}</b>"
    detail = f": {escaped(one.now.detail)}" if one.now.detail else ""
    note = None if one.withheld is None else withheld_note(one.withheld)
    origin = (one.doc_id, one.source, note or one.url or one.locator)
    parts = [f"<article><p>{verdict}{detail}</p>", f'<p class="soft">{escaped(" · ".join(origin))}</p>']
    parts += [_scores(one), _text(one)] if one.withheld is None else []
    return "\n".join([*filter(None, parts), "</article>"])


def _scores(one: Canary) -> str:
    if one.old is not None:
        rows = [(name, _short(old), _short(now)) for name, old, now in changed_scores(one.old, one.now)]
        return table(("score", "before", "now"), rows, left=3) if rows else ""
    found = (f"<code>{escaped(name)} {escaped(_short(value))}</code>" for name, value in one.now.scores.items())
    return f"<p>{' '.join(found)}</p>"


def _short(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= SHORTENED else f"{text[:SHORTENED]}…"


def _text(one: Canary) -> str:
    """The difference of two texts; without one, the opening of the text. The whole texts are below it."""
    before, after = shown_change(one)
    if before is not None and after is not None and before.digest != after.digest:
        changes = around_changes(word_changes(before.text, after.text))
        size = f"{before.characters:,} → {counted(after.characters, 'character')}"
        return f'<p class="soft">{size}</p><blockquote>{"".join(map(_piece, changes))}</blockquote>{_whole(one)}'
    opening = None if one.old is not None else after or before
    shown = "" if opening is None else f"<blockquote>{escaped(opening.text[:OPENING_CHARACTERS])} …</blockquote>"
    return shown + _whole(one)


def _piece(change: WordChange) -> str:
    kind, text = change
    if kind == "not compared":
        return " … <i>the rest is not compared</i>"
    tag = TAGS.get(kind)
    return escaped(text) if tag is None else f"<{tag}>{escaped(text)}</{tag}>"


def _whole(one: Canary) -> str:
    """The texts before and after the step, folded."""
    sides: tuple[tuple[str, StepOutcome | None], ...] = (("now", one.now), ("in the other version", one.old))
    found = [
        _folded(f"{label} the step{'' if one.old is None else f', {version}'}", text)
        for version, outcome in (sides if one.changes else sides[:1])
        if outcome is not None
        for label, text in (("Before", outcome.before), ("After", outcome.after))
        if text is not None
    ]
    return "".join(found)


def _folded(label: str, text: TextOpening) -> str:
    more = f" … {text.characters - len(text.text):,} more" if text.characters > len(text.text) else ""
    kind = "markup" if text.is_markup else "text"
    summary = f"{label}: {kind}, {counted(text.characters, 'character')}"
    return f"<details><summary>{summary}</summary><blockquote>{escaped(text.text)}{more}</blockquote></details>"
