"""Tokenizers: the model, its patterns and special tokens, and tokenizer files."""
