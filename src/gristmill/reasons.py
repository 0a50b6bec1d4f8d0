"""Reasons for which a record is not a document of the corpus."""

NO_DOCUMENT = frozenset(
    {
        *("warcinfo_record", "request_record", "metadata_record", "revisit_record", "continuation_record"),
        *("filedesc_record", "unknown_record", "robots_txt"),
    }
)
"""Reasons of records that never were documents; all others are faults of a document, or of what should be one."""

NO_FAULT = NO_DOCUMENT | {"http_status", "not_text", "empty_body", "empty_text", "empty_file", "not_code"}
"""Reasons of records that a reader has read well, and that hold nothing for a corpus; its others are faults."""
