"""The order of the pipeline: which module reads each format and which one implements each step. Imports none."""

INGEST = "ingest"
"""The prefix for columns of the documents as they were read: `ingest.text`."""
GROUPS = "shard_groups"
LANGUAGE = "language"
"""The step whose label is the document's language."""
CORPUS = "corpus"
"""The last layer: the final verdict on every row."""
INDEX = "index"
"""The layer after `corpus`, if the recipe has one: where every document is."""
COPIES = "copies_left"
"""The layer before `corpus`, if dedup compares documents in several groups: the copies that are left."""
TAKEDOWN, TAKEDOWN_MATCH = "takedown", "takedown_match"
TAKEDOWN_SETS, TAKEDOWN_UNSENT = "takedown_sets", "takedown_unsent"
"""The steps of `takedowns`."""

JOINED, POSTS = "joined_into_thread", "posts"
"""The drop reason of a document whose text a step joined to that of another document, and the column of that document
with the ids of all that it consists of.
"""

NO_DOCUMENT = frozenset(
    {
        *("warcinfo_record", "request_record", "metadata_record", "revisit_record", "continuation_record"),
        *("filedesc_record", "unknown_record", "robots_txt"),
    }
)
"""Drop reasons of records that were never documents. All other reasons are faults of a document, or of a damaged one.
"""

NO_FAULT = NO_DOCUMENT | {
    *("http_status", "not_text", "empty_body", "empty_text", "empty_file", "not_code"),
    *("redirect", "other_namespace", "disambiguation_page", "not_wikitext", "part_of_paper"),
    "other_post_type",
}
"""Drop reasons of records that were read correctly but hold nothing for a corpus. A reader's other reasons are faults.
"""

READERS = {
    "warc": "gristmill.stages.ingest.warc",
    "wet": "gristmill.stages.ingest.warc",
    "jsonl": "gristmill.stages.ingest.jsonl",
    "json": "gristmill.stages.ingest.json_values",
    "csv": "gristmill.stages.ingest.csv_rows",
    "parquet": "gristmill.stages.ingest.parquet",
    "text": "gristmill.stages.ingest.text",
    "html": "gristmill.stages.ingest.html_files",
    "code": "gristmill.stages.ingest.code",
}

STEPS = {
    "extract": "gristmill.stages.extract.extract",
    "gate": "gristmill.stages.select.gate",
    "robots": "gristmill.stages.select.robots",
    "lines": "gristmill.stages.select.lines",
    "language": "gristmill.stages.measure.language",
    "keep_language": "gristmill.stages.select.keep_language",
    "signals": "gristmill.stages.measure.signals",
    "code_signals": "gristmill.stages.measure.code_signals",
    "heuristics": "gristmill.stages.select.heuristics",
    "url_dedup": "gristmill.stages.dedup.url_dedup",
    "exact_dedup": "gristmill.stages.dedup.exact_dedup",
    "line_dedup": "gristmill.stages.dedup.line_dedup",
    "near_dedup": "gristmill.stages.dedup.near_dedup",
    "substring_dedup": "gristmill.stages.dedup.substring_dedup",
    "quality": "gristmill.stages.quality.quality",
    "count_tokens": "gristmill.stages.quality.count_tokens",
    "keep_quality": "gristmill.stages.quality.keep_quality",
    "perplexity": "gristmill.stages.quality.perplexity",
    "decontaminate": "gristmill.stages.decontaminate.decontaminate",
    "safety": "gristmill.stages.scrub.safety",
    "scrub": "gristmill.stages.scrub.scrub",
}
