"""Regular expressions from users."""

import re
import warnings


def expression(text: str) -> re.Pattern[str]:
    """The compiled expression. Raises ValueError, also for syntax that a later Python may change (`[[`)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            return re.compile(text)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None
