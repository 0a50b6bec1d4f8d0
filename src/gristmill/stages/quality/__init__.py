"""Learned quality: models of good text, scores of every document, and the selection by these scores."""
