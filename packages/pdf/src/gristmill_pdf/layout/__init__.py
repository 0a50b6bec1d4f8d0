"""The text of PDF pages in reading order, from their characters and positions."""
