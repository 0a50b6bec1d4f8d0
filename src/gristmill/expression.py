"""Regular expressions that a user writes."""

import re
import warnings


def expression(text: str) -> re.Pattern[str]:
    """ValueError says what is wrong with it. What a later Python may read otherwise (`[[`) is wrong, too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            return re.compile(text)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None
