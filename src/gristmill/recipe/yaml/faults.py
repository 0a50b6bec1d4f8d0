"""Explains YAML syntax errors to users who write a recipe."""

import re

import yaml
from yaml.reader import ReaderError

_INDENT = re.compile(r"[ \t]*")
_BRACKET = re.compile(r"[\[{,]")
_CONTENT = re.compile(r"\s*[^\s#]")
_STAR = re.compile(r"[:\[,]\s*\*[^\w]")
_CHECK = "Check the indentation, the colons and the brackets here and on the line above."
_QUOTES = "'\""
_QUOTE_VARIABLE = 'Inside [ ] and { } put a value with ${NAME} in quotes: "${NAME}".'
_QUOTE_STAR = "A value that begins with * is an alias in YAML: put a pattern such as '*.gz' in quotes."


def explain(error: yaml.YAMLError, text: str) -> tuple[int, str]:
    """The line of a syntax error, and the fault and its fix in plain words if they are known."""
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return line, f"the file contains U+{ord(text[error.position]):04X}, which YAML does not allow. Remove it."
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return 1, f"this is not YAML: {error}. {_CHECK}"
    problem, context = error.problem or "", error.context or ""
    line, column = error.problem_mark.line + 1, error.problem_mark.column + 1
    begin = error.context_mark.line + 1 if error.context_mark else line
    lines = [*text.splitlines(), ""]
    around = "\n".join(lines[begin - 1 : line])
    indent = _INDENT.match(lines[min(line, len(lines)) - 1])

    if "levels deep" in problem:
        return line, f"{problem} here. A recipe is a few levels deep: check the brackets and the indentation."
    if "single document" in context:
        return line, "a second document begins here. A recipe is one document: remove the --- line."
    if "'\\t'" in problem or (indent and "\t" in indent[0]):
        return line, f"column {column}: this line is indented with a tab, but YAML requires spaces. Replace it."
    if "escape character" in problem:
        return line, f"column {column}: a backslash in double quotes is an escape. Use single quotes, or write \\\\."
    if "undefined alias" in problem:
        return line, f"{problem}. Define it earlier in the file, with & and the name before the value."
    if any(_BRACKET.search(text, 0, max(text.rfind("${"), 0)) for text in around.split("\n")):
        return line, f"column {column}: this is not YAML: {problem}. {_QUOTE_VARIABLE}"
    if "alias" in context or _STAR.search(around):
        return line, f"column {column}: this is not YAML: {problem}. {_QUOTE_STAR}"
    if "expected ':'" in problem:
        return begin, "this line has a key but no value. Put a colon and a space after the key."
    if "<stream end>" in problem or "end of stream" in problem:
        return begin, "the bracket or quote that opens here is not closed before the file ends. Close it."
    if problem.startswith("expected") and text[: error.problem_mark.index].endswith(tuple(_QUOTES)):
        return line, f"column {column}: a quoted text ends before this. A quote is missing, or there is one too many."
    if problem.startswith(("expected ',' or ']'", "expected ',' or '}'")):
        where = f" (the bracket opens on line {begin})" if begin != line else ""
        return line, f"column {column}: a comma or a closing bracket is missing before this{where}. Add it."
    if problem.startswith("expected <block end>"):
        return line, f"column {column}: this line does not fit below the one above it. Correct the indentation."
    if "mapping values are not allowed" in problem:
        above = next((number for number in range(line - 1, 0, -1) if _CONTENT.match(lines[number - 1])), line)
        if ":" not in lines[line - 1][: column - 1] and ":" not in lines[above - 1]:
            return above, "this line has no colon, but the next one continues it. Write a name, a colon and a value."
        return line, f"column {column}: a second colon. Put text with a colon in quotes, or correct the indentation."
    return line, f"column {column}: this is not YAML: {problem}. {_CHECK}"
