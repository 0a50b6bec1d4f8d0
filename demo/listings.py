"""Pages rendered by `pydoc.HTMLDoc`: nested tables and long lists, the other kind of page that a crawl contains.

They count neither as good nor as planted, because filters may reasonably differ on them. The imported modules are few,
named here, and do nothing when imported.
"""

import importlib
import pydoc
import re
from typing import Any

from demo.articles import stdlib

MODULES = [
    "array",
    "binascii",
    "bisect",
    "calendar",
    "cmath",
    "collections",
    "colorsys",
    "csv",
    "datetime",
    "decimal",
    "difflib",
    "errno",
    "fractions",
    "functools",
    "heapq",
    "hmac",
    "html",
    "io",
    "itertools",
    "json",
    "keyword",
    "math",
    "operator",
    "pprint",
    "queue",
    "random",
    "sched",
    "secrets",
    "select",
    "shlex",
    "socket",
    "statistics",
    "string",
    "struct",
    "textwrap",
    "time",
    "types",
    "unicodedata",
    "uuid",
    "weakref",
    "zlib",
]


class _Listing(pydoc.HTMLDoc):
    def docother(self, object: Any, name: Any = None, mod: Any = None, *ignored: Any) -> str:
        """Only the names of data: values contain paths, addresses, and sets in an order that changes with each run."""
        return f"<dt><strong>{self.escape(name or '')}</strong></dt>\n"


def listings(limit: int) -> list[tuple[str, str]]:
    """(module, page) for the modules that this installation can render without a trace of the machine."""
    found = []
    for name in MODULES[:limit]:
        try:
            page = _Listing().page(name, _Listing().document(importlib.import_module(name), name))
        except Exception:  # a module that this build left out or that pydoc cannot render; the demo skips it
            continue
        page = re.sub(r'<a href="file:[^"]*">.*?</a>', "", page, flags=re.S)
        page = re.sub(r"(?: |&nbsp;)at(?: |&nbsp;)0x[0-9a-fA-F]+", "", page)
        traces = (str(stdlib()), "file:", "{'")  # the last is a set or dict as a default: its order may change
        if not any(trace in page for trace in traces) and not re.search(r"0x[0-9a-fA-F]{8}", page):
            found.append((name, page))
    return found
