"""Failures that are the user's to fix. Anything else that is raised is a bug and shows its traceback."""


class UserError(Exception):
    """One message: the fact, the consequence, the fix. The command line prints it and exits with code 2."""
