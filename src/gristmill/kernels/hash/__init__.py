"""Hash functions, and the tables and sorts that use them."""
