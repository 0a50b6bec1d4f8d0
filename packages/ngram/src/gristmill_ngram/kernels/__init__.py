"""Loops that count n-grams, compiled by Numba."""
