"""Benchmarks that compare Gristmill with a named peer or an oracle in the same run."""
