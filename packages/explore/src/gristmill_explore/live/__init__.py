"""The progress of a run: as a page, as metrics that can be scraped, and as lineage events."""
