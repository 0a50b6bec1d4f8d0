"""Drops pages that the robots.txt of their site disallows, using the robots.txt records of the crawl itself.

A site is a host with its port; the scheme does not matter. Its robots.txt may be in a different file from its pages, so
both are sent to the reducer of the site. If a site has several records, the latest counts. A robots.txt that was not
fetched successfully is not a record (RFC 9309, section 2.3.1.3: an unavailable file forbids nothing).

Rows with the path /robots.txt are dropped as `robots_txt`, since their text is rules, not a document. The step reads
the text as the reader left it, so it may come before or after extraction.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import pyarrow as pa

from gristmill.kernels.hash.hashset import hash_strings
from gristmill.stages.buffers import bytes_of
from gristmill.stages.config_types import matching
from gristmill.stages.contract import Exchange, StageConfig
from gristmill.stages.select.robots_txt import SiteRules, path_of, rules_for
from gristmill.stages.shared.urls import LIBRARIES, parse
from gristmill.warned import idle

READS = ("url", "snapshot", "timestamp", "ingest.text", "ingest.drop")
RECORD_SCHEMA = pa.schema(
    [
        ("site", pa.string()),
        ("path", pa.string()),
        ("rules", pa.string()),
        ("timestamp", pa.int64()),
    ]
)
"""path: of a page. rules, timestamp: of a robots.txt; each line of the rules is `+` or `-` and a path."""


class Config(StageConfig):
    agent: Annotated[str, matching(r"[A-Za-z0-9_.\-]+", "Use letters A-Z a-z, digits and _ . -")] = "CCBot"
    """The product token of the crawler whose rules apply; if a robots.txt does not name it, the rules for * apply."""
    scope: Literal["snapshot", "all"] = "snapshot"
    """snapshot: the robots.txt of a page's own snapshot counts; all: the latest of any snapshot."""
    missing: Literal["allow", "drop"] = "allow"
    """What to do with pages of a site without a robots.txt record; drop uses the reason robots_missing."""


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Send every page that is not dropped and every robots.txt to its site."""
    rows, sites, paths, rules = list[int](), list[str](), list[str](), list[str | None]()
    urls, snapshots, drops = (batch.column(name).to_pylist() for name in ("url", "snapshot", "ingest.drop"))
    texts = batch.column("ingest.text")
    for row, (url, snapshot, drop) in enumerate(zip(map(parse, urls), snapshots, drops, strict=True)):
        is_robots = url.path == "/robots.txt" and texts[row].is_valid
        if url.host and (is_robots or drop is None):
            rows.append(row)
            sites.append(f"{url.site} {snapshot or ''}" if config.scope == "snapshot" else url.site)
            paths.append(path_of(url))
            rules.append(_compiled(texts[row].as_py(), config.agent) if is_robots else None)
    site = pa.array(sites, pa.string())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(hash_strings(*bytes_of(site))[:, 0]),
            pa.array(rows, pa.int32()),
            site,
            pa.array(paths, pa.string()),
            pa.array(rules, pa.string()),
            batch.column("timestamp").cast(pa.int64()).take(pa.array(rows, pa.int64())),
        ],
        names=["key", "row", *RECORD_SCHEMA.names],
    )


def reduce(records: pa.Table, config: Config, others: pa.Table | None = None) -> pa.Table:
    """Drop every robots.txt and every disallowed page.

    `others`: the `summary` of the same site elsewhere.
    """
    if others is not None:
        records = pa.concat_tables([records, others], promote_options="default")
    columns = (records[name].to_pylist() for name in ("site", "path", "rules", "timestamp"))
    sites, paths, rules, times = columns
    latest = _latest(zip(sites, rules, times, strict=True))
    reasons, details = list[str | None](), list[str | None]()
    for site, path, own_rules in zip(sites, paths, rules, strict=True):
        reason = detail = None
        if own_rules is not None:
            reason = "robots_txt"
        elif site not in latest:
            reason = "robots_missing" if config.missing == "drop" else None
        elif (rule := latest[site].deciding(path)) and not rule[0]:
            reason, detail = "robots_disallowed", f"Disallow: {rule[1]}"
        reasons.append(reason)
        details.append(detail)
    answers = records.select(["part", "row"])
    answers = answers.append_column("drop", pa.array(reasons, pa.string()))
    answers = answers.append_column("detail", pa.array(details, pa.string()))
    dropped = answers.filter(answers["drop"].is_valid())
    return dropped if others is None else dropped.filter(dropped["part"].is_valid())


def summary(records: pa.Table, config: Config) -> pa.Table:
    """The robots.txt records of sites, which decide on their pages."""
    return records.filter(records["rules"].is_valid()).drop_columns(["part", "row"])


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Warn if the inputs have no robots.txt, since the step then does nothing."""
    text = "the inputs have no robots.txt record, so no rule was applied. Also read the crawl's robots.txt files"
    return idle(found.get("records"), found.get("dropped", {}).get("robots_txt"), text)


def _compiled(text: str, agent: str) -> str:
    return "\n".join(("+" if allowed else "-") + path for allowed, path in rules_for(text, agent))


def _latest(records: Iterable[tuple[str, str | None, int | None]]) -> dict[str, SiteRules]:
    """The rules of each site by its latest robots.txt. If two records have the same time, the rules decide."""
    latest: dict[str, tuple[int, str]] = {}
    for site, rules, moment in records:
        if rules is not None:
            record = (-(2**63) if moment is None else moment, rules)
            latest[site] = max(latest.get(site, record), record)
    return {
        site: SiteRules([(line[0] == "+", line[1:]) for line in lines.split("\n") if line])
        for site, (_, lines) in latest.items()
    }


STAGE = Exchange(
    version=3,
    config=Config,
    libraries=LIBRARIES,
    reads=READS,
    record_schema=RECORD_SCHEMA,
    schema=pa.schema([("drop", pa.string()), ("detail", pa.string())]),
    emit=emit,
    reduce=reduce,
    summaries={"reduce": summary},
    warnings=warnings,
)
