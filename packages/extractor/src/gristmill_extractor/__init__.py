"""The commands `gristmill extractor`: score extractors on gold pages, train ours, and show what it keeps of a page.

This is a separate package, since only people who tune extraction need it. It requires the version of Gristmill with
the same number.
"""

__version__ = "0.1.0"
