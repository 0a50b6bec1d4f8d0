"""The card of an exported dataset: Markdown for people, with the metadata in front that Hugging Face reads.

Nothing in it depends on when, where or by how many it was written. Names and reasons come from data, and are shown as
text.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gristmill.counted import counted, size
from gristmill.engine.plan.graph import CORPUS, Node
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.printable import one_line
from gristmill.query.documents.documents import LANGUAGE
from gristmill.query.removal.funnel import funnel_lines, funnels
from gristmill.recipe.checks.columns import INGEST

DATA: dict[str, Any] = json.loads(Path(__file__).with_name("card.json").read_text())
KNOWN_LICENSES = frozenset(DATA["licenses"])
"""Names that Hugging Face knows, beside `other` and `unknown`."""
_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "1B<n<10B")
_AFTERWARDS = ("tokenizer", "shards", "mix")
"""Folders of stages whose steps change nothing in a document."""
MEANINGS = {
    "doc_id": "id of the document, 32 hexadecimal digits: stable, and the same in every version",
    "text": "the text as the last step left it",
    "text_bytes": "bytes of the text in UTF-8",
    "source": "the source of the recipe that it comes from",
    "locator": "where it lies in the inputs: file and record",
    "url": "where it was published",
    "title": "its title, where one was found",
    "language": "its language as it was measured, where a step does",
    "language_hint": "the language that the input states: a programming language for code, else a natural one",
    "license": "its license as the input or the recipe states it",
    "timestamp": "when it was fetched or written, as the input states it",
    "snapshot": "the crawl that it was part of",
    "meta": "the fields of the input that have no column of their own, as a JSON object",
}


@dataclass(frozen=True)
class Exported:
    """What lies in a folder after an export."""

    name: str
    """The recipe's."""
    format: str
    schema: pa.Schema
    files: Mapping[str, tuple[int, str, int]]
    """Name -> bytes, sha256, rows."""
    scrubbed: frozenset[str]
    """Sources that were scrubbed."""
    sources: Mapping[str, int]
    """Documents of each."""
    text_bytes: Mapping[str, int]
    """By source."""
    licenses: Mapping[tuple[str, str | None], int]
    """Documents by source and license."""
    languages: Mapping[str, int]
    replaced: Mapping[str, int]
    """Values that scrub changed, by column."""

    @property
    def documents(self) -> int:
        return sum(self.sources.values())


def card(view: CorpusView, told: Exported) -> str:
    """README.md."""
    parts = [_front(told), *_sections(view, told)]
    return "\n".join(parts) + "\n"


def license_names(told: Exported) -> list[str]:
    """As Hugging Face names them; `other` for what it does not know, `unknown` where the input says nothing."""
    found = {license for _, license in told.licenses}
    named = {_known(one) for one in found if one is not None} | ({"unknown"} if None in found else set())
    return sorted(named)


def _known(license: str) -> str:
    name = license.lower()
    for ending in ("", "-only", "-or-later"):
        if name.removesuffix(ending) in KNOWN_LICENSES:
            return name.removesuffix(ending)
    return "gfdl" if name.startswith("gfdl-") else "other"


def _front(told: Exported) -> str:
    languages = [name for name in told.languages if re.fullmatch("[a-z]{2,3}", name)]
    digits = len(str(told.documents)) - 3
    lines = ["---", f"pretty_name: {json.dumps(told.name)}", "license:"]
    lines += [f"- {name}" for name in license_names(told)]
    lines += ["language:", *(f"- {json.dumps(name)}" for name in languages)] if languages else []
    lines += ["size_categories:", f"- {_SIZES[min(max(digits, 0), len(_SIZES) - 1)]}"]
    lines += ["task_categories:", "- text-generation"]
    lines += ["configs:", "- config_name: default", "  data_files:", "  - split: train"]
    return "\n".join([*lines, f"    path: data/train-*.{told.format}", "---"])


def _sections(view: CorpusView, told: Exported) -> Iterator[str]:
    text = sum(told.text_bytes.values())
    stored = sum(file_bytes for file_bytes, _, _ in told.files.values())
    yield f"\n# {_cell(told.name)}\n"
    yield (
        f"{counted(told.documents, 'document')}, {size(text)} of text, in {counted(len(told.files), 'file')} of "
        f"{size(stored)} in all. Made by Gristmill from the recipe of that name: the same recipe on the same inputs "
        "gives the same bytes."
    )
    yield "\n## Columns\n"
    yield _table(
        ("column", "type", "meaning"),
        [(one.name, _Code(one.type), MEANINGS.get(one.name, _of_step(one.name))) for one in told.schema],
    )
    yield "\n## Sources\n"
    yield _table(
        ("source", "documents", "text", "licenses"),
        [
            (name, f"{rows:,}", size(told.text_bytes[name]), _listed(_licenses_of(told, name)))
            for name, rows in told.sources.items()
        ],
    )
    if told.languages:
        yield "\n## Languages\n"
        yield _listed(told.languages)
    settings = dict(_settings(view))
    yield "\n## Steps\n"
    yield "In the order in which documents of a source pass them; settings as they were, files by their content.\n"
    for source, chain in view.chains.items():
        if source in told.sources:
            yield f"- {_cell(source)}: {_cell(', '.join([INGEST, *(step for step in chain if step in settings)]))}"
    yield ""
    yield _table(("step", "settings"), list(settings.items()))
    yield "\n## Funnel\n"
    yield "What was read, what each step took and why, and what is kept; text in bytes after extraction.\n"
    yield _table(
        ("source", "step", "what", "reason", "documents", "text"),
        [
            (one["source"], one["step"], one["what"], one["reason"], f"{one['documents']:,}", size(one["text_bytes"]))
            for one in funnel_lines(funnels(view))
        ],
    )
    yield "\n## Known limits\n"
    yield from (f"- {line}" for line in _limits(view, told))


def _limits(view: CorpusView, told: Exported) -> Iterator[str]:
    names = {view.nodes[step].name for chain in view.chains.values() for step in chain}
    unknown = sum(rows for (_, license), rows in told.licenses.items() if license is None)
    if unknown:
        yield f"Of {counted(unknown, 'document')} no license is known; others are as the input or the recipe states."
    without = [
        source for source in told.sources if not any(view.nodes[step].name == LANGUAGE for step in view.chains[source])
    ]
    if without:
        yield f"The language was not measured in {_cell(', '.join(without))}."
    if told.scrubbed:
        changed = ", ".join(f"{name} ({count:,})" for name, count in told.replaced.items() if count)
        yield (
            "The step scrub replaced personal data and secrets in the texts, and this export did in the other columns; "
            f"values changed there: {_cell(changed) or 'none'}. Names of persons and postal addresses may be left."
        )
    if raw := [source for source in told.sources if source not in told.scrubbed]:
        yield (
            f"Personal data was not removed in {_cell(', '.join(raw))}: no step scrub looked for names, addresses, "
            "numbers and secrets, and they are still in the texts, titles and URLs."
        )
    if "decontaminate" not in names:
        yield "No step looked for items of benchmarks in the texts."
    if not any("dedup" in name for name in names):
        yield "No step looked for duplicates."
    yield "What automatic filters let through is not checked by people: texts may be wrong, offensive or biased."


def _settings(view: CorpusView) -> Iterator[tuple[str, "_Code"]]:
    """Of the steps that have a say in the documents; tokens and shards are made of them afterwards."""
    for node_id, node in view.nodes.items():
        identity = node.identity if isinstance(node, Node) else (view.record or {})["nodes"][node_id]["identity"]
        if node.name != CORPUS and identity["stage"].partition(".")[0] not in _AFTERWARDS:
            yield node_id, _Code(json.dumps(identity["config"], sort_keys=True))


class _Code(str):
    """JSON, which has a way to write any sign that would mean something here."""


def _licenses_of(told: Exported, source: str) -> dict[str, int]:
    return {license or "unknown": rows for (name, license), rows in told.licenses.items() if name == source}


def _of_step(name: str) -> str:
    step, _, column = name.rpartition(".")
    return f"{column} of the step {step}" if step else ""


def _listed(counts: Mapping[str, int]) -> str:
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{_cell(name)} ({rows:,})" for name, rows in most)


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [names, ["---"] * len(names), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    """Text that is no markup, in one line."""
    if isinstance(text, _Code):
        return f"`{re.sub('[`|<>&]', lambda found: f'{chr(92)}u{ord(found[0]):04x}', text)}`"
    return re.sub(r"[\\`*\[\]<>|#&~]", lambda found: f"&#{ord(found[0])};", one_line(text))
