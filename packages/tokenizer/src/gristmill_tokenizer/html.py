"""The audit of a tokenizer as an HTML page."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gristmill.counted import counted
from gristmill.report import charts
from gristmill.report.page import render

LONGEST_BAR = 32
"""The last bar of the histogram, in bytes, includes all longer tokens."""
NEEDED_BY = "The page of a tokenizer audit"
UNIT = "bytes per token"


def page(report: Mapping[str, Any]) -> str:
    """The whole page."""
    this = report["tokenizer"]
    judged = [check for check in report["checks"] if check["judged"]]
    names = [this["name"], *(other["name"] for other in report["against"])]
    by_domain, by_language = report["bytes_per_token"], report["bytes_per_token_by_language"]
    sizes, tokens = report["sizes"], report["tokens"]
    domains = list(sizes["rows"][0]["bytes_per_token"]) if sizes["rows"] else []
    return render(
        Path(__file__).with_name("audit.html"),
        title=f"Tokenizer audit: {this['name']}",
        report=report,
        summary=f"{sum(check['passed'] for check in judged)} of {counted(len(judged), 'check')} passed",
        tokenizers=list(map(_tokenizer, (this, *report["against"]))),
        names=names,
        by_domain=_by_group(by_domain, names),
        by_domain_chart=charts.bars(
            [
                {"domain": domain, UNIT: value, "tokenizer": name}
                for name in names
                for domain, value in by_domain[name].items()
            ],
            *("domain", UNIT, "tokenizer"),
            is_upright=True,
        ),
        by_language=_by_group(by_language, names),
        sizes_head=("vocabulary", *domains, "embedding, tied", "untied"),
        sizes=[_size(row, domains) for row in sizes["rows"]],
        sizes_chart=charts.lines(
            [
                {"vocabulary": row["vocab"], UNIT: row["bytes_per_token"][domain], "domain": domain}
                for domain in domains
                for row in sizes["rows"]
            ],
            *("vocabulary", UNIT, "domain"),
        ),
        lengths=_lengths(tokens["length_bytes"]),
        lengths_chart=charts.bars(
            [{"bytes": length, "tokens": number} for length, number in _lengths(tokens["length_bytes"])],
            *("bytes", "tokens"),
            is_upright=True,
        ),
        kinds=_kinds(tokens),
    )


def _tokenizer(one: Mapping[str, Any]) -> Sequence[str]:
    return (
        one["name"],
        one["pattern"] or "no named pattern",
        one["encoded_by"] + (f" ({one['reason']})" if one["reason"] else ""),
        *(f"{one[key]:,}" for key in ("vocab", "merges", "special_tokens")),
    )


def _by_group(found: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> list[tuple[str, ...]]:
    return [(group, *(f"{found[name][group]:.3f}" for name in names)) for group in found[names[0]]]


def _size(row: Mapping[str, Any], domains: Sequence[str]) -> Sequence[str]:
    parameters = (row[f"embedding_parameters_{kind}"] for kind in ("tied", "untied"))
    shares = (f"{row['bytes_per_token'][domain]:.3f}" for domain in domains)
    return (f"{row['vocab']:,}", *shares, *(f"{one / 1e6:,.1f} M" for one in parameters))


def _lengths(lengths: Iterable[Sequence[int]]) -> list[tuple[str, int]]:
    counts = dict.fromkeys(range(1, LONGEST_BAR + 1), 0)
    for length, count in lengths:
        counts[min(length, LONGEST_BAR)] += count
    return [(f"{length}+" if length == LONGEST_BAR else str(length), count) for length, count in counts.items()]


def _kinds(tokens: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Kinds of tokens that deserve a look, each with its count and examples."""
    dead, unreachable = tokens["dead"], tokens["unreachable"]
    yield f"dead: never used on this text ({dead['share']:.1%})", dead
    yield f"unreachable: encoded differently ({unreachable['not_tested']:,} not tested)", unreachable
    yield "long literal strings", tokens["long_literals"]
    for title, key in (("junk", "junk"), ("private or random", "private")):
        for name, found in tokens[key].items():
            yield f"{title}: {name.replace('_', ' ')}", found
