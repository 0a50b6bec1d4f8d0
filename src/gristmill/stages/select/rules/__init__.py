"""Published sets of rules, one file a set: the rule in words, its thresholds, its formula over measured columns."""
