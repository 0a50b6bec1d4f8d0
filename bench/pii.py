"""`scrub` against datatrove's PIIFormatter on the same texts and one core, and what each of them finds.

Speed is CPU time, ours the best of several rounds. *Without* are the documents in which nothing is found; *all* are all
documents. datatrove looks only for e-mail addresses and IPv4, so it is also measured against ours for those two.
Precision and recall are on the labelled set of the tests (tests/stages/scrub/labelled.py), with spans exact to the
byte.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
from tests.stages.scrub.labelled import labelled
from tests.stages.scrub.scrubbed import found_in, precision_and_recall, scrub_texts

from bench.inputs import measurement, texts
from gristmill.stages.scrub import scrub

LIMIT_BYTES = 64_000_000
PEER_BYTES = 4_000_000
ROUNDS = 5
PEER = "datatrove PIIFormatter"
KINDS = ("email", "ip", "card", "iban", "secret", "phone", "national_id", "wallet")
SMALL: dict[str, object] = {"LIMIT_BYTES": 100_000, "PEER_BYTES": 10_000, "ROUNDS": 1}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    found = texts(data, LIMIT_BYTES)
    answers = scrub_texts(found, max_density=None)
    clean = [text for text, types in zip(found, answers["replaced_types"].to_pylist(), strict=True) if not types]
    both = scrub.Config(types=("email", "ip"))
    few = first(clean, PEER_BYTES)
    peer = peer_format()
    theirs = peer_rate(peer, few) if peer else None
    yield measurement("pii.texts_without", rate_of(clean, scrub.Config()), "MB/s, all types", PEER, theirs)
    yield measurement("pii.texts_without_email_ip", rate_of(clean, both), "MB/s, e-mail and IP", PEER, theirs)
    theirs = peer_rate(peer, first(found, PEER_BYTES)) if peer else None
    yield measurement("pii.all_texts", rate_of(found, scrub.Config()), "MB/s, all types", PEER, theirs)
    yield from judged(peer is not None)


def judged(with_peer: bool) -> Iterable[dict]:
    """Precision and recall by type; the peer's only for the types that it supports."""
    known = labelled()
    wanted = [one.spans for one in known]
    answers = scrub_texts(
        [one.text for one in known], [one.language for one in known], [one.url for one in known], max_density=None
    )
    ours = found_in(answers)
    theirs = [peer_spans(one.text) for one in known] if with_peer else None
    for kind in KINDS:
        named = PEER if kind in ("email", "ip") else None
        other = precision_and_recall(wanted, theirs, kind) if theirs and named else (None, None)
        for name, value, peers in zip(
            ("precision", "recall"), precision_and_recall(wanted, ours, kind), other, strict=True
        ):
            yield measurement(f"pii.{kind}_{name}", value, "labelled set", named, peers)


def first(found: list[str], limit_bytes: int) -> list[str]:
    """The first texts up to a total size; at least one."""
    total = 0
    for count, text in enumerate(found):
        total += len(text.encode())
        if total > limit_bytes:
            return found[: max(count, 1)]
    return found


def size_of(found: list[str]) -> int:
    return sum(len(text.encode()) for text in found)


def rate_of(found: list[str], config: scrub.Config) -> float:
    batch = batch_of(found)
    return size_of(found) / min(timed(batch, config) for _ in range(ROUNDS)) / 1e6


def timed(batch: pa.RecordBatch, config: scrub.Config) -> float:
    begun = time.process_time()
    scrub.apply(batch, config)
    return time.process_time() - begun


def batch_of(found: list[str]) -> pa.RecordBatch:
    rows = len(found)
    columns = {
        "text": pa.array(found, pa.string()),
        "url": pa.nulls(rows, pa.string()),
        "source": pa.array(["x"] * rows),
        "locator": pa.array([f"x.jsonl#{row}" for row in range(rows)]),
    }
    return pa.record_batch({**columns, "language.label": pa.array(["en"] * rows)})


def peer_format() -> Callable[[str], str] | None:
    try:
        from datatrove.pipeline.formatters import PIIFormatter
    except ImportError:
        return None
    format_: Callable[[str], str] = PIIFormatter().format
    return format_


def peer_rate(peer: Callable[[str], str], found: list[str]) -> float:
    begun = time.process_time()
    for text in found:
        peer(text)
    return size_of(found) / (time.process_time() - begun) / 1e6


def peer_spans(text: str) -> set[tuple[int, int, str]]:
    """The spans that the peer's expressions and its validator accept, in bytes."""
    from datatrove.pipeline.formatters import PIIFormatter

    own = PIIFormatter()
    spans = set()
    for kind, replacer in (("email", own.emails_replacer), ("ip", own.ip_replacer)):
        for found in replacer.regex.finditer(text):
            if replacer.validator is None or replacer.validator(found[0]):
                start = len(text[: found.start()].encode())
                spans.add((start, start + len(found[0].encode()), kind))
    return spans
