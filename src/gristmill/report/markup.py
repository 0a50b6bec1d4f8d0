"""Text from data inside HTML and SVG: it is never markup, and nothing in it reorders or hides the page around it."""

from html import escape

from gristmill.printable import printable


def escaped(text: str) -> str:
    """The text as an element's content or an attribute's value."""
    return escape(printable(text))
