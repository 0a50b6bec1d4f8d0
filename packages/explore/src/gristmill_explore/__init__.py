"""The explorer: pages about a corpus, served on 127.0.0.1; and the progress of a run as a page, metrics and events.

This is a separate package, since a cluster needs no pages. It requires the version of Gristmill with the same number.
"""

__version__ = "0.1.0"
