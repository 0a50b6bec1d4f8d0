"""Classifiers of two classes: the features of texts, and the training of one weight for each."""
