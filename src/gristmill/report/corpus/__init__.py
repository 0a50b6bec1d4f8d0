"""The report of a run: one HTML file with the numbers of a corpus, each chart beside its table."""
