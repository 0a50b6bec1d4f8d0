"""PDF files: their text in reading order, how far it can be trusted, and OCR for pages without text.

This is a separate package, since a corpus of web pages and code needs none of it. It requires the version of Gristmill
with the same number.
"""

__version__ = "0.1.0"

FOR_OCR = ("needs_ocr", "garbled")
"""Verdicts on files, and on their pages, that the step `ocr` can read."""
