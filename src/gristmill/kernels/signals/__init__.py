"""Signals: the measurements of every document."""
