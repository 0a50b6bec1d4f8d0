"""What a reader reads."""

from dataclasses import dataclass
from typing import IO

from gristmill.checked import Content, open_checked
from gristmill.places import FileLocation, place_of
from gristmill.ranges import unpack_ranges
from gristmill.stages.reading.views import View


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of one input file: the records whose position is in [start, stop)."""

    uri: str
    """Where the file is, for messages; also used to open it if `place` is None."""
    name: str
    """The file's path relative to its source's root. It survives a move of the data; readers use its suffix."""
    start: int = 0
    stop: int | None = None
    """None: to the end of the file."""
    place: FileLocation | None = None
    """The file as it was found."""
    content: Content | None = None
    """The file's content when it was hashed. None: read whatever it holds now."""
    view: View | None = None
    """What to read of the file: a member of an archive, or what it unpacks to. None: the file itself."""

    @property
    def ranges(self) -> list[tuple[int, int]] | None:
        """(start, stop) of the only ranges of the file to read, in order; `open` returns them concatenated."""
        packed = None if self.place is None else self.place.ranges
        return None if packed is None else unpack_ranges(packed)

    def open(self) -> IO[bytes]:
        """Opens the file, or its view, at the start. Returns the bytes that were hashed, or raises InputChanged."""
        if self.view is None:
            return self.open_file()
        return self.view.open(self.open_file, None if self.content is None else self.content.sha256)

    def open_file(self) -> IO[bytes]:
        place = self.place or place_of(self.uri)
        return place.open() if self.content is None else open_checked(place, self.content, self.uri)
