"""The code of the steps shows which reasons a step can give."""

import pytest

from gristmill.query.removal.reasons import Reasons, code_of
from gristmill.stages import READERS, STEPS

CODE = b'''
def apply(text, kind, label):
    """not_a_reason of its own"""
    if not text:
        return "no_text"
    if kind in ("gzip", "zstd"):
        return f"truncated_{kind}"
    return f"{kind}_record" if label else f"{kind} is {label}"
'''
GIVEN = {
    "warc": ("bad_warc_header", "request_record", "truncated_gzip", "corrupt_zstd", "empty_body", "http_status"),
    "jsonl": ("invalid_json", "missing_text", "empty_text", "record_too_large", "truncated_zstd", "invalid_utf8"),
    "csv": ("unclosed_quote", "wrong_field_count"),
    "parquet": ("corrupt_parquet", "not_parquet"),
    "gate": ("opted_out", "blocked_word", "license_unknown", "robots_meta"),
    "robots": ("robots_missing",),
    "keep_language": ("other_language", "unsure_language"),
    "heuristics": ("too_few_words", "too_few_sentences"),
    "lines": ("no_lines_left",),
    "url_dedup": ("duplicate_url",),
    "exact_dedup": ("duplicate_text",),
    "near_dedup": ("near_duplicate",),
    "substring_dedup": ("all_text_repeated",),
    "line_dedup": ("all_lines_repeated",),
}


def test_words_of_the_code_are_reasons_whole_or_put_together():
    """And a near match is suggested."""
    found = Reasons()
    found.read(CODE)
    assert all(map(found.has, ("no_text", "truncated_gzip", "truncated_zstd", "gzip_record", "worker_crashed")))
    assert not any(map(found.has, ("no_txet", "truncated_gizp", "truncated_", "not_a_reason", "records", "")))
    assert found.suggestion("no_txet", []) == "no_text"
    assert found.suggestion("to_long", ["too_long", "gone"]) == "too_long"
    assert found.suggestion("quite_another", ["too_long"]) is None


@pytest.mark.parametrize("name", GIVEN)
def test_reasons_of_our_steps_are_known(name):
    """Of every kind: constants, tables of rules, reasons from data files of a reader."""
    found = Reasons()
    for source in code_of([{**READERS, **STEPS}[name]]).values():
        found.read(source.text)
    assert [reason for reason in GIVEN[name] if not found.has(reason)] == []
    assert not any(found.has(f"{reason[:-2]}{reason[-1]}{reason[-2]}x") for reason in GIVEN[name])
