"""The executor `ray`: runs tasks on a Ray cluster.

It requires the version of Gristmill with the same number, on the machine of the run and on every node.
"""

__version__ = "0.1.0"
