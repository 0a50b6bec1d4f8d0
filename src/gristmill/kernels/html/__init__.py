"""Reads pages without a parser: the size and depth of their tree, their blocks of text, and their `<meta>` tags."""
