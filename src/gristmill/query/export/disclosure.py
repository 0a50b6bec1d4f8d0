"""A public summary of the training content: what regulators require, as far as the store can prove it.

Nothing is estimated. What was not recorded is null.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.query.documents.columns import ColumnReader
from gristmill.query.documents.derived import birth_columns, derived_sources
from gristmill.query.opening import check_finished
from gristmill.query.removal.funnel import funnel_lines, funnels
from gristmill.stages import GROUPS, INGEST, TAKEDOWN
from gristmill.stages.shared.public_suffix import registered_domains
from gristmill.stages.shared.urls import hosts_of

TOP_SHARE, MOST_DOMAINS = 0.1, 1000
"""The share of all domains that are listed, the largest first, and the most of them."""
_COLUMNS = ("source", "text_bytes", "license", "language", "timestamp", "snapshot", "url")
_MERGED_ROWS = 1 << 20
_WEB = "(?i)^https?://"
_DOMAIN = r"^[\w-]+(\.[\w-]+)+$"


@dataclass
class _SourceCounts:
    """What the kept documents of a source are."""

    documents: int = 0
    text_bytes: int = 0
    licenses: Counter[str | None] = field(default_factory=Counter)
    languages: Counter[str | None] = field(default_factory=Counter)
    snapshots: Counter[str | None] = field(default_factory=Counter)
    prompts: Counter[str | None] = field(default_factory=Counter)
    first: Any = None
    last: Any = None

    def add(self, batch: pa.RecordBatch) -> None:
        self.documents += batch.num_rows
        self.text_bytes += pc.sum(batch.column("text_bytes")).as_py() or 0
        counted = {"license": self.licenses, "language": self.languages, "snapshot": self.snapshots}
        counted |= {"prompt": self.prompts} if "prompt" in batch.schema.names else {}
        for name, counts in counted.items():
            counts.update({one["values"]: one["counts"] for one in pc.value_counts(batch.column(name)).to_pylist()})
        times = pc.min_max(batch.column("timestamp")).as_py()
        self.first = min(filter(None, (self.first, times["min"])), default=None)
        self.last = max(filter(None, (self.last, times["max"])), default=None)


class _DomainCounts:
    """Kept documents and bytes by registered domain; memory grows with the distinct domains only."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        urls = batch.column("url").cast(pa.string())
        domains = registered_domains(hosts_of(urls))
        # A URL may be any text: a title, an id, a path. Only what is a domain without doubt is published.
        is_domain = pc.and_(pc.match_substring_regex(urls, _WEB), pc.match_substring_regex(domains, _DOMAIN))
        domains = pc.if_else(is_domain, domains, pa.scalar(None, domains.type))
        ones = pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)
        columns = {"domain": domains, "documents": ones, "text_bytes": batch.column("text_bytes").cast(pa.int64())}
        self._tables.append(pa.table(columns).filter(domains.is_valid()))
        self._rows += batch.num_rows
        if self._rows > _MERGED_ROWS:
            self._tables, self._rows = [self.merged()], 0

    def merged(self) -> pa.Table:
        sums = [("documents", "sum"), ("text_bytes", "sum")]
        found = pa.concat_tables(self._tables).group_by("domain").aggregate(sums)
        return found.select(["domain", "documents_sum", "text_bytes_sum"]).rename_columns(
            ["domain", "documents", "text_bytes"]
        )

    def top(self) -> dict[str, Any]:
        """The largest domains, by bytes of text, with their share of the text of all domains."""
        table = self.merged() if self._tables else pa.table({"domain": []})
        if not table.num_rows:
            return {"domains": None, "documents": 0, "listed": []}
        listed = min(max(round(TOP_SHARE * table.num_rows), 10), MOST_DOMAINS)
        largest = table.sort_by([("text_bytes", "descending"), ("domain", "ascending")]).slice(0, listed)
        whole = pc.sum(table["text_bytes"]).as_py()
        rows = [{**row, "share": row["text_bytes"] / max(whole, 1)} for row in largest.to_pylist()]
        return {"domains": table.num_rows, "documents": pc.sum(table["documents"]).as_py(), "listed": rows}


def disclose(view: CorpusView) -> dict[str, Any]:
    """The summary as JSON values."""
    check_finished(view)
    counts, domains = {source: _SourceCounts() for source in view.chains}, _DomainCounts()
    birth = [name for name in birth_columns(view) if name == "prompt"]
    for batch in ColumnReader(view, [*_COLUMNS, *birth]).batches():
        counts[batch.column("source")[0].as_py()].add(batch)  # all rows of a batch are from one part
        domains.add(batch)
    tokens, made = _tokens(view), derived_sources(view)
    about = {"recipe": view.name, "version": None if view.record is None else view.record.get("version")}
    return about | {
        "documents": sum(one.documents for one in counts.values()),
        "text_bytes": sum(one.text_bytes for one in counts.values()),
        "tokens": sum(tokens.values()) if tokens is not None else None,
        "sources": {source: _source(view, source, one, tokens) for source, one in counts.items()},
        "web_domains": domains.top(),
        "steps": [
            {name: line[name] for name in ("source", "step", "what", "reason", "documents", "text_bytes")}
            for line in funnel_lines(funnels(view))
        ],
        "benchmarks": _summed(view, "decontaminate", "benchmarks"),
        "personal_data": _summed(view, "scrub", "findings"),
        "takedowns": _takedowns(view),
        "generated": {
            source: {**one, "parents": list(one["parents"]), "prompts": _named(counts[source].prompts)}
            for source, one in made.items()
        },
    }


def _source(view: CorpusView, source: str, found: _SourceCounts, tokens: Mapping[str, int] | None) -> dict[str, Any]:
    times = [None if time is None else time.date().isoformat() for time in (found.first, found.last)]
    return {
        "format": view.nodes[f"{source}/{INGEST}"].identity["stage"].rpartition(".")[2],
        "domain": view.domains.get(source),
        "documents": found.documents,
        "text_bytes": found.text_bytes,
        "tokens": None if tokens is None else tokens.get(source, 0),
        "licenses": _named(found.licenses),
        "languages": _named(found.languages),
        "snapshots": _named(found.snapshots),
        "first_date": times[0],
        "last_date": times[1],
    }


def _named(counts: Mapping[str | None, int]) -> dict[str, int] | None:
    """Documents by value, the most frequent first, "" for those without one; None if none has a value."""
    if not any(name is not None for name in counts):
        return None
    return {name or "": rows for name, rows in sorted(counts.items(), key=lambda one: (-one[1], one[0] or ""))}


def _summed(view: CorpusView, step: str, key: str) -> dict[str, int] | None:
    """A metric that counts by name, summed over the steps of a name; None if there is no such step."""
    found, steps = Counter[str](), view.metrics_of(step)
    for one in steps:
        found.update({name: int(times) for name, times in one.get(key, {}).items()})
    return dict(found.most_common()) if steps else None


def _tokens(view: CorpusView) -> dict[str, int] | None:
    """Tokens in the shards by source, each counted once; None without shards."""
    found = Counter[str]()
    for source, _, tokens in view.token_groups():
        found[source] += tokens
    return dict(found) if view.named(GROUPS) else None


def _takedowns(view: CorpusView) -> dict[str, int] | None:
    """The number of requests that removed something, and of removed documents; the requests stay private."""
    found = _summed(view, TAKEDOWN, "requests")
    return None if found is None else {"requests": len(found), "documents": sum(found.values())}
