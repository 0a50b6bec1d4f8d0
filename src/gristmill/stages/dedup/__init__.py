"""Copies: of the URL, of the whole text, of nearly the whole text, of lines and of stretches. One of them stays."""
