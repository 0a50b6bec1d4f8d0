"""Text that a language model makes from the documents of a corpus, and whether it stays true to them.

This is a separate package, since a corpus of pages as they were written needs none of it. It requires the version of
Gristmill with the same number.
"""

__version__ = "0.1.0"
