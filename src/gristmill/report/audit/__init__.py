"""The audit of a tokenizer: what it does to texts, which of its tokens are junk, and which size would do."""
