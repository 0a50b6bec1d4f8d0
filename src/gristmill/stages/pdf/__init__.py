"""PDF files: their text in reading order, and how far it can be trusted."""

FOR_OCR = ("needs_ocr", "garbled")
"""Verdicts on files, and on their pages, that the step `ocr` can read."""
