"""Language models of word n-grams: splitting, counting, estimating, looking up, scoring."""
