"""Glyphs of PDF pages: reads them from the library, and joins them to words and line segments."""
