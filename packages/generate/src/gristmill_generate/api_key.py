"""The API key of the servers: read from the environment, and kept out of everything that is stored or printed."""

import html
import os
import re

from gristmill.errors import UserError
from gristmill_generate.settings import RequestConfig

REPLACEMENT = "[API key]"
_KEY = re.compile(r"[!#-\[\]-~]+")
"""Visible ASCII characters except the quote and the backslash."""
_MOST_BACKSLASHES = 8
"""JSON inside JSON doubles backslashes."""


def api_key(config: RequestConfig) -> str | None:
    """The API key in the environment. Raises UserError if it is absent or cannot be sent."""
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env, "")
    if not key:
        raise UserError(
            f"The environment variable {config.api_key_env}, which api_key_env names, has no API key, so no request "
            "was sent. Set it where workers run, and run again."
        )
    if not _KEY.fullmatch(key):
        raise UserError(
            f"The environment variable {config.api_key_env}, which api_key_env names, has a character that an API key "
            "cannot have (white space, a line end, a quote, a backslash, or one outside ASCII), so no request was "
            "sent. Correct it where workers run, and run again."
        )
    return key


class KeyRemover:
    """Replaces an API key in texts of a server, also where its characters are escaped as in JSON, HTML or a URL."""

    def __init__(self, key: str | None) -> None:
        self._key = key
        self._pattern = None if key is None else re.compile("".join(map(_forms, key)))

    def clean(self, text: str) -> str:
        """The text without the key."""
        if self._key is None or self._pattern is None:
            return text
        is_escaped = any(mark in text for mark in "\\%&")
        return self._pattern.sub(REPLACEMENT, text) if is_escaped else text.replace(self._key, REPLACEMENT)


def _forms(character: str) -> str:
    """A pattern of a character and its escapes, the longest first. No two of them begin alike for a usual character, so
    that the search takes linear time.
    """
    code, literal, entity = ord(character), re.escape(character), re.escape(html.escape(character))
    return (
        rf"(?:\\{{1,{_MOST_BACKSLASHES}}}(?:(?i:u00{code:02x}|x{code:02x})|{literal})"
        rf"|(?i:%(?:25){{0,2}}{code:02x}|&#0{{0,4}}{code};|&#x0{{0,4}}{code:x};)"
        + ("" if entity == literal else f"|{entity}")
        + f"|{literal})"
    )
