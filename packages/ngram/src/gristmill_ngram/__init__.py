"""Training of n-gram language models, for the step `perplexity` of Gristmill.

This is a separate package, since most users take models that others trained, and the core reads and scores with those.
It requires the version of Gristmill with the same number.
"""

__version__ = "0.1.0"
