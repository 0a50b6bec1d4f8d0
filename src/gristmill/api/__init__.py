"""Gristmill from Python: `gristmill.open`."""
