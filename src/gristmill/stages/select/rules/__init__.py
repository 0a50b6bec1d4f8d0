"""Published sets of rules, one file per set: the rules in words, their thresholds, and formulas over columns."""
