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
}
