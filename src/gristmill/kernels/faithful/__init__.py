"""Finds what a text says that its parent does not."""
