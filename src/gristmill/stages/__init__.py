"""The pipeline's order: which module reads a format, which module carries out a step."""

READERS = {
    "warc": "gristmill.stages.ingest.warc",
    "wet": "gristmill.stages.ingest.warc",
    "jsonl": "gristmill.stages.ingest.jsonl",
    "parquet": "gristmill.stages.ingest.parquet",
    "text": "gristmill.stages.ingest.text",
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
}
