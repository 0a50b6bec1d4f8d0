"""Gristmill: raw crawls, code and licensed text in; a clean corpus out, reproducible to the byte."""
