"""Failures that are the user's to fix. Anything else that is raised is a bug and shows its traceback."""

from gristmill.printable import printable


class UserError(Exception):
    """One message: the fact, the consequence, the fix. The command line prints it and exits with code 2.

    Names in it come from data, and a trainer prints it without us: it is printable from the start.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(str(message)))


class BrokenPromise(UserError):
    """A stage answered something else than it promised: its own fault and no document's, so the run stops at once."""


class CannotBeMet(UserError):
    """What a recipe asks for cannot be had from what it reads. The engine adds the recipe's file and line."""


class WrongSetting(UserError):
    """What a stage finds wrong with a field of its config. Who loads the recipe adds its file, the line and the whole
    name of the field.
    """

    def __init__(self, field: str, fact: object) -> None:
        super().__init__(f"{field}: {fact}")
        self.field = field
        """Its path in the config: `continues.manifest`."""
        self.fact = str(fact)


class Gone(UserError):
    """What a run made is not in its store any more: nothing is damaged, it was let go."""


class NoInput(UserError):
    """A path of a recipe matches no file: its inputs may be on another machine."""

    def __init__(self, message: object = "", is_slip: bool = False) -> None:
        super().__init__(message)
        self.is_slip = is_slip
        """Something of nearly that name is there, so that the fix is known."""


def first_cause(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to show: a user's before a bug's, the first of its kind."""
    flat: list[BaseException] = []
    stack: list[BaseException] = [errors]
    while stack:
        error = stack.pop()
        if isinstance(error, BaseExceptionGroup):
            stack.extend(reversed(error.exceptions))
        else:
            flat.append(error)
    return next((error for error in flat if isinstance(error, UserError)), flat[0])
