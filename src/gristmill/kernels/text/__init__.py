"""Texts as bytes: characters, words and lines, spans to cut, and the labels of a classifier."""
