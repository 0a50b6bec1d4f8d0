"""Binary classifiers: the features of texts, and the training of one weight for each."""
