"""The signatures of a stage's functions, as the engine calls them.

`models=` is passed if a stage declares `uses`: {name of the step: path of its file}. `loaded=` is the result of
`setup`, `answers=` the result of `answers`, `totals=` the result of `totals`, and `others=` holds the rows by which a
`summary` describes the other pieces of a large key.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import pyarrow as pa

from gristmill.schema import Record
from gristmill.stages.config_types import StageConfig
from gristmill.stages.piece import Piece

C = TypeVar("C", bound=StageConfig, contravariant=True)
T = TypeVar("T")
Given: TypeAlias = T | Callable[[C], T]
"""A value, or a function that computes it from the config."""
Models = Mapping[str, Path]
Counts = Mapping[str, Any]
"""Numbers by name, nested to any depth. The engine adds them up."""
Entry = Mapping[str, Any]
"""One set of files of a sink: a JSON object."""
Answers: TypeAlias = pa.Table | tuple[pa.Table, Counts]
Match = tuple[int, int, int, str]
"""(row, start, stop, label), in bytes of the text."""


class ReadBeside(Protocol[C]):
    def __call__(self, piece: Piece, config: C, /, *, companions: Sequence[Piece]) -> Iterator[Record]: ...


class BatchModels(Protocol[C]):
    def __call__(self, batch: pa.RecordBatch, config: C, /, *, models: Models) -> pa.RecordBatch: ...


class BatchLoaded(Protocol[C]):
    def __call__(self, batch: pa.RecordBatch, config: C, /, *, loaded: Any) -> pa.RecordBatch: ...


class BatchModelsLoaded(Protocol[C]):
    def __call__(self, batch: pa.RecordBatch, config: C, /, *, models: Models, loaded: Any) -> pa.RecordBatch: ...


class StoredAnswers(Protocol):
    """Answers of servers in the store (`store/answers.py`)."""

    is_read_only: bool
    """Whether only stored answers may be used."""
    is_immediate: bool
    """Whether `add` stores; otherwise `flush` does."""

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, tuple[bytes, Any]]:
        """By the key of the request: the hash of an answer, and the answer, a JSON value."""

    def add(self, key: bytes, body: Any, prompt_tokens: int, completion_tokens: int) -> tuple[bytes, Any]: ...
    def flush(self) -> None: ...
    def usage(self, every_s: float = ...) -> tuple[int, int, int]:
        """The prompt tokens, completion tokens and number of all answers of the scope; those of other workers as they
        were at most `every_s` seconds ago."""


class ModelRequest(Protocol):
    """A request to a server outside."""

    @property
    def key(self) -> bytes:
        """The key of its stored answer."""

    @property
    def text_bytes(self) -> int:
        """Bytes of what the model reads, from which tokens are estimated."""


class RequestPrice(Protocol):
    """What servers charge, in any currency."""

    @property
    def input(self) -> float:
        """for a million tokens of requests"""

    @property
    def output(self) -> float:
        """for a million tokens of answers"""


@runtime_checkable
class RequestFields(Protocol):
    """What the config of a step that asks servers outside has."""

    @property
    def servers(self) -> Sequence[str]:
        """Their addresses; none if each worker starts its own."""

    @property
    def price(self) -> RequestPrice: ...
    @property
    def most_answer_tokens(self) -> int:
        """The most tokens of an answer."""


class BatchAnswers(Protocol[C]):
    def __call__(
        self, batch: pa.RecordBatch, config: C, /, *, answers: StoredAnswers, loaded: Any
    ) -> pa.RecordBatch: ...


class SetupModels(Protocol[C]):
    def __call__(self, config: C, /, *, models: Models) -> Any: ...


class RoundTotals(Protocol[C]):
    def __call__(self, records: pa.Table, config: C, /, *, totals: dict[str, Any]) -> Answers: ...


class RoundOthers(Protocol[C]):
    def __call__(self, records: pa.Table, config: C, /, *, others: pa.Table | None) -> Answers: ...


class RoundTotalsOthers(Protocol[C]):
    def __call__(
        self, records: pa.Table, config: C, /, *, totals: dict[str, Any], others: pa.Table | None
    ) -> Answers: ...


class SummaryTotals(Protocol[C]):
    def __call__(self, records: pa.Table, config: C, /, *, totals: dict[str, Any]) -> pa.Table: ...


class FitModels(Protocol[C]):
    def __call__(self, batches: Iterator[pa.RecordBatch], config: C, path: Path, /, *, models: Models) -> Counts: ...


class MakeModels(Protocol[C]):
    def __call__(self, config: C, path: Path, /, *, models: Models) -> Counts: ...


class BuildModels(Protocol[C]):
    def __call__(
        self, records: pa.Table | None, config: C, entry: Entry, folder: Path, /, *, models: Models
    ) -> Counts: ...


class FactsModels(Protocol[C]):
    def __call__(self, config: C, /, *, models: Models) -> Mapping[str, Any]: ...


ReadCall = Callable[[Piece, C], Iterator[Record]] | ReadBeside[C]
BatchCall = (
    Callable[[pa.RecordBatch, C], pa.RecordBatch]
    | BatchModels[C]
    | BatchLoaded[C]
    | BatchModelsLoaded[C]
    | BatchAnswers[C]
)
SetupCall = Callable[[C], Any] | SetupModels[C]
RoundCall = Callable[[pa.Table, C], Answers] | RoundTotals[C] | RoundOthers[C] | RoundTotalsOthers[C]
SummaryCall = Callable[[pa.Table, C], pa.Table] | SummaryTotals[C]
FitCall = Callable[[Iterator[pa.RecordBatch], C, Path], Counts] | FitModels[C]
MakeCall = Callable[[C, Path], Counts] | MakeModels[C]
BuildCall = Callable[[pa.Table | None, C, Entry, Path], Counts] | BuildModels[C]
FactsCall = Callable[[C], Mapping[str, Any]] | FactsModels[C]
LayoutCall = Callable[[Counts, C], Mapping[str, Iterable[Entry]]]
