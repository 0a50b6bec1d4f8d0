"""From the name of a format or a step to the module that carries it out."""

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType

from gristmill.recipe.draft import Draft
from gristmill.recipe.mistakes import Path, suggest


def find_module(name: str, known: Mapping[str, str]) -> str | None:
    """The module of a known name, or the name itself where it is the import path of a user's own module."""
    if name in known:
        return known[name]
    parts = name.split(".")
    return name if len(parts) > 1 and all(part.isidentifier() for part in parts) else None


def import_stage(
    draft: Draft,
    noun: str,
    name: str,
    at: Path,
    known: Mapping[str, str],
    faults_of: Callable[[ModuleType], list[str]],
) -> ModuleType | None:
    """The module behind `name`, which stands at `at`; None, and a mistake, where it cannot serve."""
    path = find_module(name, known)
    if path is None:
        own = f"For a {noun} of your own write its import path, such as my_package.my_{noun}."
        draft.add_at_key(at, f"{name} is not a {noun}. {suggest(name, known, f'{noun.capitalize()}s')} {own}")
        return None
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        missing = error.name or path
        if path == missing or path.startswith(f"{missing}."):
            fix = "Correct the name, or put the folder that holds it on PYTHONPATH."
        else:
            fix = f"Install {missing.split('.')[0]}."
        draft.add_at_key(at, f"{name} cannot be imported: there is no module {missing}. {fix}")
        return None
    except Exception as error:  # a user's module runs any code
        cause = f"{type(error).__name__}: {error}"
        draft.add_at_key(at, f"{name} cannot be imported: {cause}. Correct {path}.")
        return None
    faults = faults_of(module)
    if faults:
        draft.add_at_key(
            at, f"{path} is not a {noun}: {'; '.join(faults)}. gristmill.stages.contract says what it needs."
        )
        return None
    return module
