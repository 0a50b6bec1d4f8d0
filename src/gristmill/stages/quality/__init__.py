"""Learned quality: models of what good text is, scores of every document, and what is kept by them."""
