"""The tokenizer: trained on the corpus, audited, and used to encode it."""
