"""The executor `slurm`: runs tasks in jobs of a Slurm cluster.

This is a separate package: not everyone has a Slurm cluster, and it shows that packages can add
executors. It requires the version of Gristmill with the same number.
"""

__version__ = "0.1.0"
