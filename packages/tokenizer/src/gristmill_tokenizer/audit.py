"""The audit of a tokenizer: checks that must pass, and tables about its efficiency and its vocabulary.

The report depends only on the tokenizer and the text, and is reproducible to the byte.
"""

from collections.abc import Sequence
from typing import Any

from gristmill.counted import counted
from gristmill_tokenizer.checks import run_checks
from gristmill_tokenizer.sizes import (
    AuditProgress,
    NoProgress,
    batches_of,
    compare,
    measure,
    merges_of_sizes,
    size_name,
    size_table,
)
from gristmill_tokenizer.subject import Subject
from gristmill_tokenizer.text import Domain
from gristmill_tokenizer.tokens import token_tables

SIZES = (16_000, 32_000, 64_000, 128_000, 152_000)
D_MODEL = 4096

CHECKED_BYTES = 200_000
"""Real text of each domain that the pattern checks use, in addition to the hostile texts."""


def audit(
    subject: Subject,
    others: Sequence[Subject],
    domains: Sequence[Domain],
    sizes: Sequence[int] = SIZES,
    d_model: int = D_MODEL,
    progress: AuditProgress | None = None,
) -> dict[str, Any]:
    """The complete report as JSON values."""
    progress = progress or NoProgress()
    batches = sum(1 for _ in batches_of(domains))
    for name in (*(one.name for one in (subject, *others)), *map(size_name, merges_of_sizes(subject, sizes))):
        progress.promise(name, batches)
    checks = run_checks(subject, _some(domains))
    measured = {one.name: measure(one.tokenizer, domains, True, one.name, progress) for one in (subject, *others)}
    by_domain, by_language = compare(measured, domains)
    mine = measured[subject.name]
    rows, note = size_table(subject, domains, sizes, d_model, progress)
    return {
        "tokenizer": _described(subject),
        "against": [_described(other) for other in others],
        "passed": all(check.passed for check in checks),
        "checks": [check._asdict() for check in checks],
        "notes": _notes(subject, domains),
        "text": [
            {
                "domain": domain.name,
                "source": domain.source,
                "texts": len(domain.texts),
                "bytes": domain.size_bytes,
                "bad_records": domain.bad_records,
                "cut": domain.cut,
            }
            for domain in domains
        ],
        "bytes_per_token": by_domain,
        "bytes_per_token_by_language": by_language,
        "sizes": {"d_model": d_model, "rows": rows, "note": note},
        "tokens": token_tables(subject, mine.uses, mine.documents),
    }


def failed(report: dict[str, Any]) -> list[str]:
    """The names of the failed checks."""
    return [check["name"] for check in report["checks"] if not check["passed"]]


def _described(subject: Subject) -> dict[str, Any]:
    return {
        "name": subject.name,
        "hash": subject.tokenizer.hash,
        "vocab": len(subject.tokens),
        "special_tokens": len(subject.tokenizer.specials),
        "merges": len(subject.merges),
        "pattern": subject.pattern,
        "encoded_by": "the library" if subject.definition is None else "gristmill",
        "reason": getattr(subject.tokenizer, "reason", ""),
    }


def _notes(subject: Subject, domains: Sequence[Domain]) -> list[str]:
    """Remarks that are shown before the tables."""
    found = []
    added = (subject.spec or {}).get("added_tokens") or []
    if plain := [token["content"] for token in added if not token.get("special")]:
        found.append(
            f"{counted(len(plain), 'added token is', 'added tokens are')} not special, so any text can produce "
            f"them: {', '.join(plain[:12])}"
        )
    for domain in domains:
        if domain.bad_records:
            found.append(f"{domain.name}: skipped {counted(domain.bad_records, 'record')} without readable text")
        if domain.cut:
            found.append(f"{domain.name}: only the first {domain.size_bytes:,} bytes were read")
    return found


def _some(domains: Sequence[Domain]) -> list[str]:
    """The first texts of each domain, up to `CHECKED_BYTES`; the last one may be cut."""
    chosen = []
    for domain in domains:
        left = CHECKED_BYTES
        for text in domain.texts:
            if left <= 0:
                break
            chosen.append(text[:left])
            left -= len(text.encode())
    return chosen
