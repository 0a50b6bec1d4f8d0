"""Texts, lines and stretches that occur more than once: hashes, sketches, candidates, links, keepers."""
