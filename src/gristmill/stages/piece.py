"""What a reader is given to read."""

from dataclasses import dataclass
from typing import IO

from gristmill.checked import Content, open_checked
from gristmill.places import FileLocation, place_of


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of one input file: the records whose position lies in [start, stop)."""

    uri: str
    """Where the file is, for people; without `place` also for whoever opens it."""
    name: str
    """The file's path below its source's root: survives a move of the data; the reader uses it for suffixes."""
    start: int = 0
    stop: int | None = None
    """None: to the end of the file."""
    place: FileLocation | None = None
    """The file as it was found."""
    content: Content | None = None
    """What the file held when it was hashed; None: take it as it is."""

    def open(self) -> IO[bytes]:
        """The file, from its start. What is read of it is what was hashed, or InputChanged is raised."""
        place = self.place or place_of(self.uri)
        return place.open() if self.content is None else open_checked(place, self.content, self.uri)
