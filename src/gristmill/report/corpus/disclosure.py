"""The page of a disclosure: a public summary of the training content, without a chart."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gristmill.counted import counted, percent, size
from gristmill.report.corpus.reported import Section
from gristmill.report.page import render

UNKNOWN = "not recorded"
MOST_LISTED = 20
"""Values in a cell; the JSON file has all of them."""


def disclosure_page(facts: Mapping[str, Any]) -> str:
    """The page as HTML."""
    totals = {"documents": f"{facts['documents']:,}", "of text": size(facts["text_bytes"])}
    totals |= {} if facts["tokens"] is None else {"tokens": f"{facts['tokens']:,}"}
    version = f"Version {facts['version']}" if facts["version"] else "The recipe as it is now"
    return render(
        Path(__file__).with_name("report.html"),
        title=f"{facts['recipe']}: summary of the training content",
        about=f"{version}. Everything here is counted in the kept documents and in the "
        f"records of the run. “{UNKNOWN}” means that the store does not say.",
        against=None,
        cards=[(value, name, "") for name, value in totals.items()],
        sections=_sections(facts),
    )


def _sections(facts: Mapping[str, Any]) -> list[Section]:
    sources, web, made = facts["sources"], facts["web_domains"], facts["generated"]
    rows = [
        (
            *(name, "generated" if name in made else one["format"], _listed(one["licenses"])),
            *(_listed(one["languages"]), _dates(one), f"{one['documents']:,}", size(one["text_bytes"])),
            UNKNOWN if one["tokens"] is None else f"{one['tokens']:,}",
        )
        for name, one in sources.items()
    ]
    head: tuple[str, ...] = ("source", "kind", "licenses", "languages", "dates", "documents", "text", "tokens")
    text = "Kept documents. Licenses and dates are those that the inputs or the recipe state; languages were measured."
    found = [Section("Sources", text, head, rows, word_columns=5)]
    text = f"Registered domains of the URLs: {UNKNOWN}."
    if web["domains"]:
        text = (
            f"{counted(web['documents'], 'document has', 'documents have')} a URL, with "
            f"{counted(web['domains'], 'registered domain')}. The largest {len(web['listed']):,} by bytes of "
            "text, with their share of the text of all domains:"
        )
    domains = [(one["domain"], f"{one['documents']:,}", f"{one['share']:.2%}") for one in web["listed"]]
    found.append(Section("Web domains", text, ("domain", "documents", "share"), domains))
    shares = [
        (
            *(
                name,
                ", ".join(one["parents"]),
                f"{one.get('model', '')} {one.get('revision', '')}".strip(),
                _listed(one["prompts"]),
            ),
            *(percent(sources[name][part], facts[part]) for part in ("documents", "text_bytes")),
            UNKNOWN if facts["tokens"] is None else percent(sources[name]["tokens"], facts["tokens"]),
        )
        for name, one in made.items()
    ]
    head = ("source", "made from", "model", "prompts", "documents", "text", "tokens")
    text = "Sources whose documents were made from other documents, with their shares of the whole."
    text = text if made else "The recipe has no source of generated text."
    found.append(Section("Generated text", text, head, shares, word_columns=4))
    steps = [
        (one["source"], one["step"], one["what"], one["reason"], f"{one['documents']:,}", size(one["text_bytes"]))
        for one in facts["steps"]
    ]
    text = "What was read, what each step of filtering and deduplication removed and why, and what is kept."
    head = ("source", "step", "what", "reason", "documents", "text")
    found.append(Section("Processing", text, head, steps, word_columns=4))
    for title, key, absent, present in (
        ("Benchmarks", "benchmarks", "No step searched for benchmark items.", "Documents with items of a benchmark."),
        ("Personal data", "personal_data", "No step searched for personal data.", "Findings that were replaced."),
    ):
        counts = facts[key]
        numbers = [(name, f"{times:,}") for name, times in (counts or {}).items()]
        text = absent if counts is None else present if numbers else "The step found nothing."
        found.append(Section(title, text, ("kind", "number"), numbers))
    taken = facts["takedowns"]
    text = "The recipe names no file of takedown requests."
    if taken is not None:
        text = (
            f"{counted(taken['documents'], 'document was', 'documents were')} removed on "
            f"{counted(taken['requests'], 'request')}, copies included."
        )
    found.append(Section("Takedown requests", text, (), ()))
    return found


def _dates(source: Mapping[str, Any]) -> str:
    first, last = source["first_date"], source["last_date"]
    times = UNKNOWN if first is None else first if first == last else f"{first} to {last}"
    return times if source["snapshots"] is None else f"{times}; snapshots: {_listed(source['snapshots'])}"


def _listed(counts: Mapping[str, int] | None) -> str:
    if counts is None:
        return UNKNOWN
    names = [f"{name or UNKNOWN} ({rows:,})" for name, rows in list(counts.items())[:MOST_LISTED]]
    return ", ".join([*names, *([f"{len(counts) - MOST_LISTED:,} more"] if len(counts) > MOST_LISTED else [])])
