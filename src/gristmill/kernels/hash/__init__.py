"""Hash functions, and tables and orders that rest on them."""
