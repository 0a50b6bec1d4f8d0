"""The card of an exported dataset: Markdown that starts with the metadata for Hugging Face.

Its content does not depend on the time, the machine or the number of workers. Names and reasons come from data and are
escaped.
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
from gristmill.query.documents.derived import derived_sources
from gristmill.query.documents.documents import LANGUAGE
from gristmill.query.removal.funnel import funnel_lines, funnels
from gristmill.recipe.checks.columns import INGEST
from gristmill.stages.derived import FACTS

DATA: dict[str, Any] = json.loads(Path(__file__).with_name("card.json").read_text())
KNOWN_LICENSES = frozenset(DATA["licenses"])
"""Names that Hugging Face knows, in addition to `other` and `unknown`."""
_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "1B<n<10B")
_AFTERWARDS = ("tokenizer", "shards", "mix")
"""Stage folders whose steps do not change documents."""
MEANINGS: dict[str, str] = DATA["meanings"]
"""What the columns of a dataset hold."""


@dataclass(frozen=True)
class Exported:
    """The result of an export."""

    name: str
    """The name of the recipe."""
    format: str
    schema: pa.Schema
    files: Mapping[str, tuple[int, str, int]]
    """File name -> bytes, sha256, rows."""
    scrubbed: frozenset[str]
    """Sources with a step scrub."""
    sources: Mapping[str, int]
    """Documents per source."""
    text_bytes: Mapping[str, int]
    """Bytes of text per source."""
    licenses: Mapping[tuple[str, str | None], int]
    """Documents by source and license."""
    languages: Mapping[str, int]
    replaced: Mapping[str, int]
    """The number of values that scrub changed, by column."""

    @property
    def documents(self) -> int:
        return sum(self.sources.values())


def card(view: CorpusView, exported: Exported) -> str:
    """The content of README.md."""
    parts = [_front(exported), *_sections(view, exported)]
    return "\n".join(parts) + "\n"


def license_names(exported: Exported) -> list[str]:
    """License names of Hugging Face; `other` for unlisted ones, `unknown` if the input states none."""
    found = {license for _, license in exported.licenses}
    named = {_known(one) for one in found if one is not None} | ({"unknown"} if None in found else set())
    return sorted(named)


def _known(license: str) -> str:
    name = license.lower()
    for ending in ("", "-only", "-or-later"):
        if name.removesuffix(ending) in KNOWN_LICENSES:
            return name.removesuffix(ending)
    return "gfdl" if name.startswith("gfdl-") else "other"


def _front(exported: Exported) -> str:
    languages = [name for name in exported.languages if re.fullmatch("[a-z]{2,3}", name)]
    digits = len(str(exported.documents)) - 3
    lines = ["---", f"pretty_name: {json.dumps(exported.name)}", "license:"]
    lines += [f"- {name}" for name in license_names(exported)]
    lines += ["language:", *(f"- {json.dumps(name)}" for name in languages)] if languages else []
    lines += ["size_categories:", f"- {_SIZES[min(max(digits, 0), len(_SIZES) - 1)]}"]
    lines += ["task_categories:", "- text-generation"]
    lines += ["configs:", "- config_name: default", "  data_files:", "  - split: train"]
    return "\n".join([*lines, f"    path: data/train-*.{exported.format}", "---"])


def _sections(view: CorpusView, exported: Exported) -> Iterator[str]:
    text = sum(exported.text_bytes.values())
    stored = sum(file_bytes for file_bytes, _, _ in exported.files.values())
    yield f"\n# {_cell(exported.name)}\n"
    yield (
        f"{counted(exported.documents, 'document')}, {size(text)} of text, in {counted(len(exported.files), 'file')} "
        f"with {size(stored)} in total. Made by Gristmill from the recipe of that name: the same recipe with the same "
        "inputs gives the same bytes."
    )
    yield "\n## Columns\n"
    yield _table(
        ("column", "type", "meaning"),
        [(one.name, _Code(one.type), MEANINGS.get(one.name, _of_step(one.name))) for one in exported.schema],
    )
    yield "\n## Sources\n"
    yield _table(
        ("source", "documents", "text", "licenses"),
        [
            (name, f"{rows:,}", size(exported.text_bytes[name]), _listed(_licenses_of(exported, name)))
            for name, rows in exported.sources.items()
        ],
    )
    made = {name: about for name, about in derived_sources(view).items() if name in exported.sources}
    if made:
        rows, held = (sum(one[name] for name in made) for one in (exported.sources, exported.text_bytes))
        yield "\n## Generated text\n"
        yield (
            f"{counted(rows, 'document')} ({rows / exported.documents:.1%}), {size(held)} of text "
            f"({held / max(text, 1):.1%}), were made from other documents, which `parent` names.\n"
        )
        facts = [name for name in FACTS if any(name in one for one in made.values())]
        about = [
            (name, ", ".join(one["parents"]), *(str(one.get(fact, "")) for fact in facts)) for name, one in made.items()
        ]
        yield _table(("source", "made from", *facts), about)
    if exported.languages:
        yield "\n## Languages\n"
        yield _cell(_listed(exported.languages))
    settings = dict(_settings(view))
    yield "\n## Steps\n"
    yield "For each source in the order of processing. Settings are those of the run; files appear as content hashes.\n"
    for source, chain in view.chains.items():
        if source in exported.sources:
            yield f"- {_cell(source)}: {_cell(', '.join([INGEST, *(step for step in chain if step in settings)]))}"
    yield ""
    yield _table(("step", "settings"), list(settings.items()))
    yield "\n## Funnel\n"
    yield "What was read, what each step dropped and why, and what is kept; text sizes are after extraction.\n"
    yield _table(
        ("source", "step", "what", "reason", "documents", "text"),
        [
            (one["source"], one["step"], one["what"], one["reason"], f"{one['documents']:,}", size(one["text_bytes"]))
            for one in funnel_lines(funnels(view))
        ],
    )
    yield "\n## Known limits\n"
    yield from (f"- {line}" for line in _limits(view, exported))


def _limits(view: CorpusView, exported: Exported) -> Iterator[str]:
    steps = {source: {view.nodes[step].name for step in view.chains[source]} for source in exported.sources}
    names = set[str]().union(*steps.values())
    unknown = sum(rows for (_, license), rows in exported.licenses.items() if license is None)
    if unknown:
        yield f"The license of {counted(unknown, 'document')} is unknown; others are stated by the input or recipe."
    if without := [source for source in exported.sources if LANGUAGE not in steps[source]]:
        yield f"The language was not measured in {_cell(', '.join(without))}."
    if exported.scrubbed:
        changed = ", ".join(f"{name} ({count:,})" for name, count in exported.replaced.items() if count)
        yield (
            "The step scrub replaced personal data and secrets in the texts, and the export did so in the other "
            f"columns (changed values: {_cell(changed) or 'none'}). Names of persons and postal addresses may remain."
        )
    if raw := [source for source in exported.sources if source not in exported.scrubbed]:
        yield (
            f"Personal data was not removed in {_cell(', '.join(raw))}: they have no step scrub, so names, "
            "addresses, numbers and secrets are still in the texts, titles and URLs."
        )
    if unsearched := [source for source in exported.sources if "decontaminate" not in steps[source]]:
        yield f"No step searched the texts of {_cell(', '.join(unsearched))} for benchmark items."
    if not any("dedup" in name for name in names):
        yield "No step searched for duplicates."
    yield "People have not reviewed the output of the automatic filters: texts may be wrong, offensive or biased."


def _settings(view: CorpusView) -> Iterator[tuple[str, "_Code"]]:
    """The settings of all steps that affect documents, which excludes tokens and shards."""
    for node_id, node in view.nodes.items():
        identity = node.identity if isinstance(node, Node) else (view.record or {})["nodes"][node_id]["identity"]
        if node.name != CORPUS and identity["stage"].partition(".")[0] not in _AFTERWARDS:
            yield node_id, _Code(json.dumps(identity["config"], sort_keys=True))


class _Code(str):
    """JSON text, in which any Markdown character can be escaped."""


def _licenses_of(exported: Exported, source: str) -> dict[str, int]:
    return {license or "unknown": rows for (name, license), rows in exported.licenses.items() if name == source}


def _of_step(name: str) -> str:
    step, _, column = name.rpartition(".")
    return f"{column} of the step {step}" if step else ""


def _listed(counts: Mapping[str, int]) -> str:
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} ({rows:,})" for name, rows in most)


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [names, ["---"] * len(names), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    """The text in one line, with Markdown escaped."""
    if isinstance(text, _Code):
        return f"`{re.sub('[`|<>&]', lambda found: f'{chr(92)}u{ord(found[0]):04x}', text)}`"
    return re.sub(r"[\\`*\[\]<>|#&~]", lambda found: f"&#{ord(found[0])};", one_line(text))
