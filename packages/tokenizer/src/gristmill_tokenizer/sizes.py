"""Bytes per token of each tokenizer, by domain and language, and of one tokenizer with smaller vocabularies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from gristmill.tokenizer.model import Tokenizer
from gristmill_tokenizer.subject import AuditedTokenizer, Subject
from gristmill_tokenizer.text import Domain

Array = np.ndarray[Any, Any]

BATCH_BYTES = 4 << 20
"""The size of a batch of text."""

ALL = "all"

Batch = tuple[str, list[str]]
"""A domain and some of its texts."""


class AuditProgress(Protocol):
    """Shows the progress of encoding."""

    def promise(self, name: str, total: int) -> None: ...
    def walk(self, name: str, items: Iterable[Batch]) -> Iterator[Batch]: ...


class NoProgress:
    """Shows nothing."""

    def promise(self, name: str, total: int) -> None: ...
    def walk(self, name: str, items: Iterable[Batch]) -> Iterator[Batch]:
        return iter(items)


_SILENT = NoProgress()


@dataclass(eq=False)
class SampleTokens:
    """The tokens of the sample."""

    tokens: dict[str, list[int]]
    """Domain -> number of tokens of each text."""
    uses: Array
    """How often each id was used."""
    documents: Array
    """In how many texts each id was used."""


def measure(
    tokenizer: AuditedTokenizer,
    domains: Sequence[Domain],
    count_uses: bool = True,
    name: str = "",
    progress: AuditProgress = _SILENT,
) -> SampleTokens:
    """Encode the whole sample; `name` is the label of the progress."""
    size = tokenizer.vocab_size
    uses, documents = np.zeros(size, np.int64), np.zeros(size, np.int64)
    tokens: dict[str, list[int]] = {domain.name: [] for domain in domains}
    for domain, texts in progress.walk(name, batches_of(domains)):
        ids, offsets = tokenizer.encode(pa.array(texts, pa.large_string()))
        tokens[domain] += np.diff(offsets).tolist()
        if count_uses:
            uses += np.bincount(ids, minlength=size)
            for one, other in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
                documents[np.unique(ids[one:other])] += 1
    return SampleTokens(tokens, uses, documents)


def bytes_per_token(domains: Sequence[Domain], measured: SampleTokens) -> dict[str, float]:
    """Bytes per token by domain, and for all domains together."""
    size = {domain.name: domain.size_bytes for domain in domains}
    count = {name: sum(lengths) for name, lengths in measured.tokens.items()}
    found = {name: size[name] / max(1, count[name]) for name in size}
    return {**found, ALL: sum(size.values()) / max(1, sum(count.values()))}


def bytes_per_token_by_language(domains: Sequence[Domain], measured: SampleTokens) -> dict[str, float]:
    """Bytes per token by the stated language of the texts."""
    size: dict[str, int] = {}
    count: dict[str, int] = {}
    for domain in domains:
        for text, language, tokens in zip(domain.texts, domain.languages, measured.tokens[domain.name], strict=True):
            if language is not None:
                size[language] = size.get(language, 0) + len(text.encode())
                count[language] = count.get(language, 0) + tokens
    return {language: size[language] / max(1, count[language]) for language in sorted(size)}


def truncated(tokenizer: Tokenizer, merges: int) -> Tokenizer:
    """The tokenizer with only its first merges. Ids do not change, so any layout works."""
    this = tokenizer.definition
    order = np.argsort(this.ranks, kind="stable")
    _, first = np.unique(this.made[order], return_index=True)
    kept = this.made[order][np.sort(first)[:merges]]
    keep = np.isin(this.made, kept)
    left_over = {*kept.tolist(), *this.byte_ids.tolist()}
    whole = tuple(number for number in this.whole if number in left_over)
    sides = {name: getattr(this, name)[keep] for name in ("left", "right", "made", "ranks")}
    return Tokenizer(replace(this, **sides, whole=whole))


def merges_of_sizes(subject: Subject, sizes: Sequence[int]) -> dict[int, int]:
    """The number of merges for each vocabulary size that truncation can reach, including the full size."""
    if not isinstance(subject.tokenizer, Tokenizer):
        return {}
    whole = len(subject.tokens)
    outside = whole - 256 - len(subject.merges)
    wanted = sorted({*(size for size in sizes if size < whole), whole})
    return {size: size - 256 - outside for size in wanted if size >= 256 + outside}


def size_name(size: int) -> str:
    """The label of the progress for a size."""
    return f"vocabulary of {size:,}"


def size_table(
    subject: Subject, domains: Sequence[Domain], sizes: Sequence[int], d_model: int, progress: AuditProgress = _SILENT
) -> tuple[list[dict[str, Any]], str]:
    """A row for each possible vocabulary size, including the full size, and a note about the other sizes."""
    tokenizer = subject.tokenizer
    if not isinstance(tokenizer, Tokenizer):
        return [], "not measured: our kernel does not support this tokenizer, so its merges cannot be truncated"
    rows = []
    for size, merges in merges_of_sizes(subject, sizes).items():
        measured = measure(truncated(tokenizer, merges), domains, False, size_name(size), progress)
        rows.append(
            {
                "vocab": size,
                "merges": merges,
                "bytes_per_token": bytes_per_token(domains, measured),
                "embedding_parameters_tied": size * d_model,
                "embedding_parameters_untied": 2 * size * d_model,
            }
        )
    absent = [size for size in sizes if size not in {row["vocab"] for row in rows}]
    note = f"{', '.join(f'{size:,}' for size in absent)}: not possible by truncating this tokenizer" if absent else ""
    return rows, note


def compare(
    subjects: Mapping[str, SampleTokens], domains: Sequence[Domain]
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Bytes per token of every tokenizer, by domain and by language."""
    return (
        {name: bytes_per_token(domains, measured) for name, measured in subjects.items()},
        {name: bytes_per_token_by_language(domains, measured) for name, measured in subjects.items()},
    )


def batches_of(domains: Sequence[Domain]) -> Iterator[Batch]:
    """The whole sample in batches."""
    for domain in domains:
        batch: list[str] = []
        size = 0
        for text in domain.texts:
            batch.append(text)
            size += len(text)
            if size >= BATCH_BYTES:
                yield domain.name, batch
                batch, size = [], 0
        if batch:
            yield domain.name, batch
