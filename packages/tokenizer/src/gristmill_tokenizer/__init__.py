"""The audit of a tokenizer: what it does to texts, which of its tokens are junk, and which size would do.

This is a separate package, since a corpus needs no audit. It requires the version of Gristmill with the same number.
"""

__version__ = "0.1.0"
