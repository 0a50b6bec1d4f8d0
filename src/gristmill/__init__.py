"""Gristmill: raw crawls, code and licensed text in; a clean corpus out, reproducible to the byte."""

__version__ = "0.1.0"
