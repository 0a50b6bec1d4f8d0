"""Texts as bytes: characters, words and lines, spans that are cut, and the labels of a classifier."""
