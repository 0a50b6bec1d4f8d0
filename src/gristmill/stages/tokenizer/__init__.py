"""The tokenizer: made for the corpus, audited, and used to encode it."""
