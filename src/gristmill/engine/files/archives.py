"""Which archives a source opens, and which members of them it reads.

An archive is opened if a path or the last part of a glob names it (`crawl/*.zip`), and is then a folder with its
members: `crawl/*.zip/docs/*.md` reads some of them. A folder that happens to contain archives opens none of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from gristmill.engine.files.tree import ANYTHING, Glob
from gristmill.stages.contract import Reader
from gristmill.stages.reading.archive import is_archive

Segments = tuple[str, ...]


@dataclass(frozen=True)
class MemberGlobs:
    """The members of an archive to read, and those to leave out."""

    wanted: tuple[Segments, ...] = ()
    unwanted: tuple[Segments, ...] = ()

    def plus(self, glob: Segments) -> "MemberGlobs":
        return replace(self, wanted=(*self.wanted, glob))

    def without(self, glob: Segments) -> "MemberGlobs":
        return replace(self, unwanted=(*self.unwanted, glob))

    def select(self, names: Iterable[str]) -> tuple[list[str], list[str]]:
        """The names to read, and those that are excluded."""
        wanted, unwanted = [Glob(one) for one in self.wanted], [Glob(one) for one in self.unwanted]
        matched = [name for name in names if any(glob.matches(name) for glob in wanted)]
        excluded = {name for name in matched if any(glob.matches(name) for glob in unwanted)}
        return [name for name in matched if name not in excluded], sorted(excluded)


def split_at_archive(pattern: str) -> tuple[str, Segments] | None:
    """The pattern of archives, and the glob of their members, if a part of the pattern has the suffix of an archive."""
    segments = pattern.split("/")
    for number, segment in enumerate(segments):
        if is_archive(segment):
            inner = tuple(segments[number + 1 :])
            return "/".join(segments[: number + 1]), inner if any(inner) else ANYTHING
    return None


def opens(name: str, reader: Reader[Any], config: object) -> bool:
    """Whether an archive is opened: its reader does not read archives itself, as that of papers does."""
    return is_archive(name) and (reader.wanted is None or not reader.wanted(name, config))
