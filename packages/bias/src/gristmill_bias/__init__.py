"""The command `gristmill bias`: which groups of documents a step keeps and removes.

This is a separate package, since only people who evaluate filters need it. It requires the version of Gristmill with
the same number.
"""

__version__ = "0.1.0"
