"""Drops pages that the robots.txt of their site disallows, using the robots.txt records of the crawl itself.

A site is a host with its port; the scheme does not matter. Its robots.txt may be in a different file from its pages, so
both are sent to the reducer of the site. If a site has several records, the latest counts. A robots.txt that was not
fetched successfully is not a record (RFC 9309, section 2.3.1.3: an unavailable file forbids nothing).

Rows with the path /robots.txt are dropped as `robots_txt`, since their text is rules, not a document. The step reads
the text as the reader left it, so it may come before or after extraction.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.kernels.hash.hashset import hash_strings
from gristmill.kernels.urls import robots as kernel
from gristmill.kernels.urls.parts import HOST, HOST_END, split_urls
from gristmill.stages.buffers import bytes_of, strings
from gristmill.stages.config_types import matching
from gristmill.stages.contract import Exchange, StageConfig
from gristmill.stages.select.robots_txt import rules_for
from gristmill.stages.shared.url_forms import plain_urls
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
    url, snapshot, timestamp, text, drop = (batch.column(place) for place in range(len(READS)))
    data, offsets = bytes_of(plain_urls(url))
    spans = split_urls(data, offsets)
    site_offsets, sites, path_offsets, paths, is_robots = kernel.sites_and_paths(data, spans)
    is_robots &= _mask(text.is_valid())
    sent = (spans[:, HOST] < spans[:, HOST_END]) & (is_robots | _mask(drop.is_null()))
    rows = np.flatnonzero(sent)
    site = strings(site_offsets, sites)
    if config.scope == "snapshot":
        site = pc.binary_join_element_wise(site, snapshot.fill_null(""), " ")
    site = site.take(rows)
    robots = is_robots[rows]
    rules: list[str | None] = [None] * len(rows)
    for place in np.flatnonzero(robots):
        rules[place] = _compiled(text[int(rows[place])].as_py(), config.agent)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(hash_strings(*bytes_of(site))[:, 0]),
            pa.array(rows, pa.int32()),
            site,
            strings(path_offsets, paths).take(rows),
            pa.array(rules, pa.string()),
            timestamp.cast(pa.int64()).take(rows),
        ],
        names=["key", "row", *RECORD_SCHEMA.names],
    )


def reduce(records: pa.Table, config: Config, others: pa.Table | None = None) -> pa.Table:
    """Drop every robots.txt and every disallowed page.

    `others`: the `summary` of the same site elsewhere.
    """
    if others is not None:
        records = pa.concat_tables([records, others], promote_options="default")
    records = records.combine_chunks()
    sites = records["site"].combine_chunks().dictionary_encode()
    site = sites.indices.to_numpy()
    is_robots = _mask(records["rules"].is_valid())
    first, last, rules = _rules_by_site(records, site, is_robots, len(sites.dictionary))
    paths, path_offsets = bytes_of(records["path"].combine_chunks())
    rule_paths = pa.array([path for _, path in rules], pa.string())
    rule_data, rule_offsets = bytes_of(rule_paths)
    decided = kernel.decide(paths, path_offsets, rule_data, rule_offsets, first[site], last[site])
    allows = np.array([allowed for allowed, _ in rules] + [True])
    reasons = np.zeros(len(site), np.int8)
    reasons[~allows[decided]] = 1
    if config.missing == "drop":
        known = np.zeros(len(sites.dictionary), np.bool_)
        known[site[is_robots]] = True
        reasons[~known[site]] = 2
    reasons[is_robots] = 3
    rows = np.flatnonzero(reasons)
    names = pa.array([None, "robots_disallowed", "robots_missing", "robots_txt"])
    rule = pa.array(decided[rows], mask=reasons[rows] != 1)
    detail = pc.binary_join_element_wise("Disallow:", rule_paths.take(rule), " ")
    answers = records.select(["part", "row"]).take(rows)
    answers = answers.append_column("drop", names.take(pa.array(reasons[rows])))
    answers = answers.append_column("detail", detail.cast(pa.string()))
    return answers if others is None else answers.filter(answers["part"].is_valid())


def summary(records: pa.Table, config: Config) -> pa.Table:
    """The robots.txt records of sites, which decide on their pages."""
    return records.filter(records["rules"].is_valid()).drop_columns(["part", "row"])


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Warn if the inputs have no robots.txt, since the step then does nothing."""
    text = "the inputs have no robots.txt record, so no rule was applied. Also read the crawl's robots.txt files"
    return idle(found.get("records"), found.get("dropped", {}).get("robots_txt"), text)


def _compiled(text: str, agent: str) -> str:
    return "\n".join(("+" if allowed else "-") + path for allowed, path in rules_for(text, agent))


def _rules_by_site(records: pa.Table, site: Any, is_robots: Any, sites: int) -> tuple[Any, Any, list[tuple[bool, str]]]:
    """The range of each site's rules in a list of all rules. If two records have the same time, the rules decide."""
    latest: dict[int, tuple[int, str]] = {}
    of_robots = records.select(["rules", "timestamp"]).take(np.flatnonzero(is_robots)).to_pylist()
    for where, record in zip(site[is_robots].tolist(), of_robots, strict=True):
        moment = record["timestamp"] if record["timestamp"] is not None else -(2**63)
        latest[where] = max(latest.get(where, (moment, record["rules"])), (moment, record["rules"]))
    first, last = np.zeros(sites, np.int64), np.zeros(sites, np.int64)
    rules: list[tuple[bool, str]] = []
    for where, (_, lines) in latest.items():
        first[where] = len(rules)
        rules += [(line[0] == "+", line[1:]) for line in lines.split("\n") if line]
        last[where] = len(rules)
    return first, last, rules


def _mask(flags: Any) -> Any:
    return np.asarray(flags.to_numpy(zero_copy_only=False) if isinstance(flags, pa.Array) else flags.to_numpy())


STAGE = Exchange(
    version=2,
    config=Config,
    libraries=("unicode",),
    reads=READS,
    record_schema=RECORD_SCHEMA,
    schema=pa.schema([("drop", pa.string()), ("detail", pa.string())]),
    emit=emit,
    reduce=reduce,
    summaries={"reduce": summary},
    warnings=warnings,
)
