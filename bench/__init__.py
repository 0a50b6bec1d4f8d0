"""Side-by-side measurements: ours against a named peer or an oracle, in the same run."""
