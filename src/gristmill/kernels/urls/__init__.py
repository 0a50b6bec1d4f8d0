"""URLs: their parts, a normal form, words in them, and the rules of robots.txt."""
