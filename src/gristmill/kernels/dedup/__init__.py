"""Texts, lines and spans that occur more than once: hashes, sketches, candidates, links, keepers."""
