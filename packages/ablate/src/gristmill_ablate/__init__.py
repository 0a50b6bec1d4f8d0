"""Small models that say whether a corpus is better: `gristmill ablate`, and `gristmill mix propose` for mixtures.

This is a separate package, since only it needs torch. It requires the version of Gristmill with the same number.
"""

__version__ = "0.1.0"
