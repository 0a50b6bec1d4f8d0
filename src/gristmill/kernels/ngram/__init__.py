"""Language models of word n-grams: cutting, counting, estimating, looking up, scoring."""
