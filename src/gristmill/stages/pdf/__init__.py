"""PDF files: their text in reading order, and how far it can be trusted."""
