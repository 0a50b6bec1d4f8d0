"""Finds and replaces personal data and secrets."""
