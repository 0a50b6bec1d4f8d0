"""Optical character recognition: page images become text, and that text is checked."""
