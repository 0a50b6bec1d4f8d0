"""Tokenizers: the model, its patterns and special tokens, and the files that hold one."""
