"""The command `gristmill bias`: whom a step keeps and whom it removes.

This is a separate package, since only those who judge filters need it. It belongs to the version of Gristmill with the
same number.
"""

__version__ = "0.1.0"
