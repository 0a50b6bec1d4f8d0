"""The explorer: pages about a corpus, served on 127.0.0.1."""
