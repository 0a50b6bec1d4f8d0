"""Small models that judge a corpus: trained on two versions at the same cost, and compared with error bars.

An ablation is a graph of stages without documents: `pool` (what a small training sees of a corpus), `items` (the
evaluations as tokens), `train` and `evaluate`. All but `items` need numpy and torch only.
"""
