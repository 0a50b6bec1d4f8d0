"""Reports: what a run or a model looks like, as one HTML file that needs nothing else."""
