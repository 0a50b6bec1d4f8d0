"""Text from data as markup: always escaped, and unable to reorder or hide the page around it."""

from html import escape

from gristmill.printable import printable


def escaped(text: str) -> str:
    """Escape a text for element content or an attribute value."""
    return escape(printable(text))
