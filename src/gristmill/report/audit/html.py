"""The audit of a tokenizer as one self-contained HTML page without scripts or images."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gristmill.counted import counted
from gristmill.report import markup, svg
from gristmill.report.markup import escaped, table

LONGEST_BAR = 32
"""The last bar of the histogram, in bytes, includes all longer tokens."""


def page(report: Mapping[str, Any]) -> str:
    """The whole page."""
    this = report["tokenizer"]
    verdict = "passed" if report["passed"] else "failed"
    judged = [check for check in report["checks"] if check["judged"]]
    names = [this["name"], *(other["name"] for other in report["against"])]
    parts = [
        f"<h1>Tokenizer audit: {escaped(this['name'])}</h1>",
        f'<p class="{"good" if report["passed"] else "bad"}">{verdict.capitalize()}: '
        f"{sum(check['passed'] for check in judged)} of {counted(len(judged), 'check')} passed.</p>",
        _tokenizers([this, *report["against"]]),
        *(f"<p>{escaped(note)}</p>" for note in report["notes"]),
        "<h2>Checks</h2>",
        _checks(report["checks"]),
        "<h2>Bytes per token</h2>",
        _bytes_per_token(report, names),
        "<h2>Size of the vocabulary</h2>",
        _sizes(report["sizes"]),
        "<h2>Tokens</h2>",
        _tokens(report["tokens"]),
    ]
    return markup.page(f"Tokenizer audit: {this['name']}", parts)


def _tokenizers(described: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            one["name"],
            one["pattern"] or "no named pattern",
            one["encoded_by"] + (f" ({one['reason']})" if one["reason"] else ""),
            f"{one['vocab']:,}",
            f"{one['merges']:,}",
            f"{one['special_tokens']:,}",
        )
        for one in described
    ]
    return table(("tokenizer", "pattern", "encoded by", "vocabulary", "merges", "special tokens"), rows, left=3)


def _checks(checks: Iterable[Mapping[str, Any]]) -> str:
    rows = "".join(
        f"<tr>{_verdict(check)}<td>{escaped(check['name'].replace('_', ' '))}</td>"
        f"<td>{escaped(check['detail'])}</td></tr>"
        for check in checks
    )
    return f"<table>{rows}</table>"


def _verdict(check: Mapping[str, Any]) -> str:
    if not check["judged"]:
        return '<td class="soft">not applicable</td>'
    return '<td class="good">passed</td>' if check["passed"] else '<td class="bad">FAILED</td>'


def _bytes_per_token(report: Mapping[str, Any], names: Sequence[str]) -> str:
    by_domain, by_language = report["bytes_per_token"], report["bytes_per_token_by_language"]
    domains = list(by_domain[names[0]])
    groups = {domain: {name: by_domain[name][domain] for name in names} for domain in domains}
    taken = "; ".join(f"{one['domain']}: {one['bytes']:,} bytes from {one['source']}" for one in report["text"])
    shown = [
        svg.bars(groups, "bytes per token"),
        table(
            ("domain", *names), [(domain, *(f"{by_domain[name][domain]:.3f}" for name in names)) for domain in domains]
        ),
        f'<p class="soft">{escaped(taken)}.</p>',
    ]
    if languages := list(by_language[names[0]]):
        rows = [(language, *(f"{by_language[name][language]:.3f}" for name in names)) for language in languages]
        shown.append(table(("language", *names), rows))
    return "".join(shown)


def _sizes(sizes: Mapping[str, Any]) -> str:
    rows, note = sizes["rows"], f'<p class="soft">{escaped(sizes["note"])}</p>' if sizes["note"] else ""
    if not rows:
        return note
    domains = list(rows[0]["bytes_per_token"])
    series = {domain: [(row["vocab"], row["bytes_per_token"][domain]) for row in rows] for domain in domains}
    cells = [
        (
            f"{row['vocab']:,}",
            *(f"{row['bytes_per_token'][domain]:.3f}" for domain in domains),
            f"{row['embedding_parameters_tied'] / 1e6:,.1f} M",
            f"{row['embedding_parameters_untied'] / 1e6:,.1f} M",
        )
        for row in rows
    ]
    head = ("vocabulary", *domains, "embedding, tied", "untied")
    plot = svg.lines(series, "bytes per token", "vocabulary") if len(rows) > 1 else ""
    said = f"Bytes per token if only the first merges are used; parameters for d_model {sizes['d_model']:,}."
    return f'{plot}{table(head, cells, left=0)}<p class="soft">{said}</p>{note}'


def _tokens(tokens: Mapping[str, Any]) -> str:
    dead, unreachable = tokens["dead"], tokens["unreachable"]
    rows = [
        _kind(f"dead: never used on this text ({dead['share']:.1%})", dead),
        _kind(f"unreachable: encoded differently ({unreachable['not_tested']:,} not tested)", unreachable),
        _kind("long literal strings", tokens["long_literals"]),
        *(_kind(f"junk: {name.replace('_', ' ')}", found) for name, found in tokens["junk"].items()),
        *(_kind(f"private or random: {name.replace('_', ' ')}", found) for name, found in tokens["private"].items()),
    ]
    merges = tokens["merges"]
    shown = [
        svg.bars(_histogram(tokens["length_bytes"]), "tokens"),
        '<p class="soft">Tokens by length in bytes.</p>',
        '<table><tr><th>kind</th><th class="n">tokens</th><th>examples</th></tr>' + "".join(rows) + "</table>",
    ]
    for title, listed in (("First merges", merges["first"]), ("Last merges", merges["last"])):
        joined = " ".join(f"<code>{escaped(one)} {escaped(other)}</code>" for one, other, _ in listed)
        shown.append(f"<h2>{title}</h2><p>{joined or 'none'}</p>")
    return "".join(shown)


def _kind(name: str, found: Mapping[str, Any]) -> str:
    examples = " ".join(f"<code>{escaped(one['token'])}</code>" for one in found["examples"][:24])
    return f'<tr><td>{escaped(name)}</td><td class="n">{found["count"]:,}</td><td>{examples}</td></tr>'


def _histogram(lengths: Iterable[Sequence[int]]) -> dict[str, dict[str, float]]:
    counts = dict.fromkeys(range(1, LONGEST_BAR + 1), 0)
    for length, count in lengths:
        counts[min(length, LONGEST_BAR)] += count
    return {
        f"{length}+" if length == LONGEST_BAR else str(length): {"tokens": float(count)}
        for length, count in counts.items()
    }
