"""Errors that the user can fix. Any other exception is a bug and shows its traceback."""

from gristmill.printable import printable


class UserError(Exception):
    """One message: the fact, the consequence, the fix. The command line prints it and exits with code 2.

    It may contain names from data, and a trainer may print it, so it is made printable at once.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(str(message)))


class BrokenPromise(UserError):
    """A stage broke its contract: a fault of the stage, not of a document, so the run stops at once."""


class CannotBeMet(UserError):
    """The inputs cannot satisfy what a recipe requests. The engine adds the recipe's file and line."""


class WrongSetting(UserError):
    """A wrong field in the config of a stage. The loader of the recipe adds the file, the line and the field's full
    name.
    """

    def __init__(self, field: str, fact: object) -> None:
        super().__init__(f"{field}: {fact}")
        self.field = field
        """The path of the field in the config: `continues.manifest`."""
        self.fact = str(fact)


class Gone(UserError):
    """Results of a run are no longer in the store: not damaged, but removed."""


class NoInput(UserError):
    """A path of a recipe matches no file: its inputs may be on another machine."""

    def __init__(self, message: object = "", is_slip: bool = False) -> None:
        super().__init__(message)
        self.is_slip = is_slip
        """Whether a similar name exists, so that the fix is known."""


def cause_of(error: BaseException) -> str:
    """What the system says about a failed operation, without the path, which the message names anyway."""
    return str((isinstance(error, OSError) and error.strerror) or error)


def first_cause(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to show: the first UserError, or else the first error."""
    flat: list[BaseException] = []
    stack: list[BaseException] = [errors]
    while stack:
        error = stack.pop()
        if isinstance(error, BaseExceptionGroup):
            stack.extend(reversed(error.exceptions))
        else:
            flat.append(error)
    return next((error for error in flat if isinstance(error, UserError)), flat[0])
