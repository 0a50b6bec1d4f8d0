"""Byte-pair encoding: cutting text into pre-tokens, training merges, and texts to ids."""
