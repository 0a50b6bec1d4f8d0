"""The commands `gristmill extractor`: judge extractors on gold pages, train ours, and show what it keeps of a page.

This is a package of its own, since only those who tune extraction need it. It belongs to the version of Gristmill with
the same number.
"""

__version__ = "0.1.0"
