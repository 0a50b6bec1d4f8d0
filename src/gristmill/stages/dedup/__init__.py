"""Deduplication by URL, by exact or similar text, by line and by substring. One copy is kept."""
