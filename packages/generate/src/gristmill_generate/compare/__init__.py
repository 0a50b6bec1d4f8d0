"""Compares a text with its parent: numbers, dates, units, names, addresses, quotations, code, polarity, passages."""
