"""Readers of other documents than web pages: papers, books, wikis, office files, mails, notebooks, subtitles, threads.

This is a separate package, since a corpus of web pages and code needs none of them. It requires the version of
Gristmill with the same number.
"""

__version__ = "0.1.0"
