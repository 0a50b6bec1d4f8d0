"""Sends documents to a language model, with prompts, and stores its answers next to the documents.

Every kept document is cut into chunks, and each chunk is sent with each prompt, once for each sample, to any
OpenAI-compatible server. Answers are stored as they arrive, under the hash of the request, so
nothing is paid for twice. The source that has the field `generate` reads them (`generated.py`): each answer becomes one
of its documents. An answer that cannot be used becomes a dropped document with a reason. Nothing is sent about
documents that a takedown request names; what was answered before stays, and `takedown` removes it.

The output is a function of the documents, the settings and the stored answers. Rephrasing: Maini et al., Rephrasing the
Web (WRAP), arXiv:2401.16380; Su et al., Nemotron-CC, arXiv:2412.02595.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted
from gristmill.errors import UserError, WrongSetting
from gristmill.stages.calls import StoredAnswers
from gristmill.stages.contract import Map, Resources
from gristmill.stages.derived import TAKEN_DOWN, UNSENT
from gristmill.warned import Warned, Warnings
from gristmill_generate.api_key import api_key
from gristmill_generate.ask import Ask, Asker
from gristmill_generate.chunks import chunks_of
from gristmill_generate.prompts import FIELDS, Malformed, ModelPrompt, Refusal, read_prompt
from gristmill_generate.serve import LocalServer
from gristmill_generate.settings import GenerateConfig, RequestConfig

READS = ("doc_id", "source", "text", "title", "url", "license", "snapshot", "language_hint")
MAY_READ = ("language.label", UNSENT)
CHILD = pa.struct(
    [
        ("chunk", pa.int32()),
        ("prompt", pa.string()),
        ("model", pa.string()),
        ("sample", pa.int32()),
        ("text", pa.string()),
        ("drop", pa.string()),
        ("detail", pa.string()),
        ("answer", pa.binary(16)),
        ("similarity", pa.float32()),
    ]
)
"""answer: the hash of the request and its stored answer; null if nothing was sent. similarity: the Jaccard similarity
of the text and its chunk, of five-word shingles, as in near_dedup."""
SCHEMA = pa.schema(
    [
        ("parent_id", pa.binary(16)),
        ("parent_license", pa.string()),
        ("parent_snapshot", pa.string()),
        ("chunks", pa.list_(pa.string())),
        ("children", pa.list_(CHILD)),
        ("parent_request", pa.string()),
    ]
)
"""parent_request: the takedown request because of which the document must not be sent."""
MIN_WARNED_SHARE = 0.05
"""The share of unusable answers, or of copies, from which a run warns."""
COPY = 0.8
"""The similarity from which a child is a near copy of its chunk: the default of near_dedup."""
MEMORY = 600 << 20


Config = GenerateConfig
T = TypeVar("T")
Stored = tuple[bytes, Any]
"""The hash of an answer, and the answer."""


class Wanted(NamedTuple):
    """One answer that a document needs."""

    row: int
    chunk: int
    prompt: ModelPrompt
    sample: int
    ask: Ask


def prompts_of(config: Config) -> list[ModelPrompt]:
    """The prompts of a config."""
    return [read_prompt(path, tuple(config.values)) for path in config.prompts]


def check(config: Config) -> None:
    """Raise for settings that cannot work, before any request."""
    prompts = prompts_of(config)
    names = [prompt.name for prompt in prompts]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise WrongSetting(
            "prompts", f"two prompts have the name {twice!r}, so their answers could not be distinguished. Rename one."
        )
    if shadowed := sorted(set(config.values) & set(FIELDS)):
        raise WrongSetting("values", f"{shadowed[0]} is a field of documents. Give the value another name.")
    used = {field for prompt in prompts for _, field in (*(prompt.system or ()), *prompt.user)}
    if unused := sorted(set(config.values) - used):
        raise WrongSetting("values", f"no prompt has the field {{{unused[0]}}}. Correct the name, or remove the value.")
    check_servers(config)


def check_servers(config: RequestConfig) -> None:
    """Raise if the settings name no server, or a budget that cannot be computed."""
    if bool(config.servers) == (config.serve is not None):
        raise WrongSetting("servers", "give the addresses of servers, or serve with a command to start one.")
    if config.budget is not None and (config.budget.tokens is None) == (config.budget.money is None):
        raise WrongSetting("budget", "give tokens or money.")
    if config.budget is not None and config.budget.money is not None and not (config.price.input + config.price.output):
        raise WrongSetting("budget", "money needs a price. Add price: {input: …, output: …} for a million tokens.")


def scope_of(config: RequestConfig) -> str:
    """The scope of the stored answers: one for each model, revision and sampling."""
    about = [config.model, config.revision, config.sampling.model_dump()]
    digest = hashlib.blake2b(orjson.dumps(about, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()
    return f"{re.sub('[^A-Za-z0-9._-]', '-', config.model)[:60].strip('.-') or 'model'}-{digest}"


def setup(config: RequestConfig) -> Iterator[LocalServer | None]:
    """The server that this worker starts when it first needs one."""
    server = None if config.serve is None else LocalServer(config.serve)
    yield server
    if server is not None:
        server.stop()


def resources(config: RequestConfig, part_bytes: int) -> Resources:
    serve = config.serve
    memory = MEMORY + 4 * part_bytes + (0 if serve is None else serve.memory)
    return Resources(memory=memory, gpus=0 if serve is None else serve.gpus)


def apply(
    batch: pa.RecordBatch, config: Config, *, answers: StoredAnswers, loaded: LocalServer | None = None
) -> pa.RecordBatch:
    """Ask what is not stored, then make the children of each document from the stored answers."""
    chunks = [chunks_in(text, config) for text in batch.column("text").to_pylist()]
    wanted = list(_wanted(batch, chunks, config))
    unsent = unsent_in(batch)
    stored = obtain([(one.ask, unsent[one.row] is None) for one in wanted], config, answers, loaded)
    children: list[list[dict[str, Any]]] = [[] for _ in range(batch.num_rows)]
    for one in wanted:
        children[one.row].append(_child(one, stored.get(one.ask.key), unsent[one.row], config))
    _compare(children, chunks)
    columns = [
        batch.column("doc_id"),
        batch.column("license"),
        batch.column("snapshot"),
        pa.array(chunks, SCHEMA.field("chunks").type),
        pa.array(children, SCHEMA.field("children").type),
        pa.array(unsent, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _compare(children: Sequence[Sequence[dict[str, Any]]], chunks: Sequence[Sequence[str]]) -> None:
    """Set the similarity of each child with a text to the chunk that was sent."""
    from gristmill.kernels.dedup.sketch import jaccard  # kernels, which a plan does not need
    from gristmill.stages.matches import shingles_of

    made = [(child, pieces) for own, pieces in zip(children, chunks, strict=True) for child in own if child["text"]]
    sent: dict[str, int] = {}
    for child, pieces in made:
        sent.setdefault(pieces[child["chunk"]], len(sent))
    ends, values = shingles_of(pa.array([*sent, *(child["text"] for child, _ in made)], pa.string()))
    sets = [values[ends[row] : ends[row + 1]] for row in range(len(ends) - 1)]
    for number, (child, pieces) in enumerate(made):
        both, either = jaccard(sets[len(sent) + number], sets[sent[pieces[child["chunk"]]]])
        child["similarity"] = both / either if either else 0.0


def requests_in(batch: pa.RecordBatch, config: Config) -> list[Ask]:
    """The requests for some documents, each once, except those that must not be sent."""
    if UNSENT in batch.schema.names:
        batch = batch.filter(batch.column(UNSENT).is_null())
    chunks = [chunks_in(text, config) for text in batch.column("text").to_pylist()]
    return list({one.ask.key: one.ask for one in _wanted(batch, chunks, config)}.values())


def obtain(
    asks: Sequence[tuple[Ask, bool]], config: RequestConfig, answers: StoredAnswers, server: LocalServer | None
) -> dict[bytes, Stored]:
    """The answers by the key of the request: stored ones, and those of requests that may be sent, which are stored."""
    stored = _stored_answers({ask.key: ask for ask, _ in asks}, answers)
    missing = {ask.key: ask for ask, may_be_sent in asks if may_be_sent and ask.key not in stored}
    if not missing:
        return stored
    if answers.is_read_only:
        raise UserError(
            f"{counted(len(missing), 'stored answer is', 'stored answers are')} missing, so the results for these "
            "documents cannot be computed again. Run the recipe to request them."
        )
    key = api_key(config)
    addresses = config.servers if server is None else (server.address(key),)
    failure = None if server is None else lambda: server.failure(key)
    return stored | Asker(config, addresses, answers, failure).ask(list(missing.values()))


def chunks_in(text: str | None, config: Config) -> list[str]:
    """The chunks of a document that are sent; chunks of white space are not."""
    pieces = (chunk.strip() for chunk in chunks_of(text or "", config.chunk_bytes))
    return [piece for piece in pieces if piece]


def unsent_in(batch: pa.RecordBatch) -> list[str | None]:
    """For each document, the takedown request because of which it must not be sent."""
    return batch.column(UNSENT).to_pylist() if UNSENT in batch.schema.names else [None] * batch.num_rows


def _languages(batch: pa.RecordBatch) -> list[str]:
    labels = batch.column("language.label").to_pylist() if "language.label" in batch.schema.names else None
    hints = batch.column("language_hint").to_pylist()
    return [label or hint or "" for label, hint in zip(labels or [None] * len(hints), hints, strict=True)]


def _wanted(batch: pa.RecordBatch, chunks: Sequence[Sequence[str]], config: Config) -> Iterator[Wanted]:
    prompts = prompts_of(config)
    columns = {name: batch.column(name).to_pylist() for name in ("title", "url", "source")}
    columns["language"] = _languages(batch)
    seeds = [_seed(config.seed, sample) for sample in range(config.samples)]
    frames = {prompt.name: _settings(prompt, config) for prompt in prompts}
    for row, pieces in enumerate(chunks):
        values = {name: column[row] or "" for name, column in columns.items()} | config.values
        for number, piece in enumerate(pieces):
            values["text"] = piece
            for prompt in prompts:
                messages = prompt.messages(values)
                for sample, seed in enumerate(seeds):
                    body = orjson.dumps({**frames[prompt.name], "messages": messages, "seed": seed})
                    yield Wanted(row, number, prompt, sample, make_ask(body, sample, config))


def _settings(prompt: ModelPrompt, config: Config) -> dict[str, Any]:
    """What all requests of a prompt have in common."""
    return frame(config, re.sub("[^A-Za-z0-9_-]", "_", prompt.name)[:60], prompt.schema())


def frame(config: RequestConfig, name: str, schema: dict[str, Any] | None) -> dict[str, Any]:
    """A request without its messages; `schema` is that of a structured answer."""
    sampling = {name: value for name, value in config.sampling.model_dump().items() if value is not None}
    structured = {"name": name, "schema": schema, "strict": True}
    form = {} if schema is None else {"response_format": {"type": "json_schema", "json_schema": structured}}
    return {"model": config.model, **sampling, **form}


def make_ask(body: bytes, sample: int, config: RequestConfig) -> Ask:
    """A request; its key is the hash of all that the answer depends on."""
    named = b"%s\0%d\0%s" % (config.revision.encode(), sample, body)
    key = hashlib.blake2b(named, digest_size=16).digest()
    fault_key = hashlib.blake2b(b"%s\0fault\0%d" % (key, config.again), digest_size=16).digest()
    return Ask(key, fault_key, body)


def _seed(seed: int, sample: int) -> int:
    digest = hashlib.blake2b(f"{seed}\0{sample}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


def _stored_answers(asks: Mapping[bytes, Ask], answers: StoredAnswers) -> dict[bytes, Stored]:
    """The stored answers, and the stored faults of requests without one, by the key of the request."""
    known = answers.find([*asks, *(ask.fault_key for ask in asks.values())])
    either = ((key, known.get(key) or known.get(ask.fault_key)) for key, ask in asks.items())
    return {key: found for key, found in either if found is not None}


def _child(one: Wanted, stored: Stored | None, request: str | None, config: Config) -> dict[str, Any]:
    text, drop, detail = (None, TAKEN_DOWN, request) if stored is None else judge(stored[1], one.prompt.text_of)
    return {
        "chunk": one.chunk,
        "prompt": one.prompt.name,
        "model": config.model,
        "sample": one.sample,
        "text": text,
        "drop": drop,
        "detail": detail,
        "answer": None if stored is None else stored[0],
        "similarity": None,
    }


def judge(body: Any, parse: Callable[[str], T]) -> tuple[T | None, str | None, str | None]:
    """What `parse` makes of a stored answer, or the reason and detail of one that cannot be used."""
    if isinstance(body, Mapping):
        return None, body["fault"], body["detail"]
    text, finish, refusal = body
    if refusal or finish == "content_filter":
        return None, "refused", refusal or finish
    if not (text or "").strip():
        return None, "empty_answer", f"finish_reason {finish}"
    if finish == "length":
        return None, "answer_truncated", "it reached max_tokens"
    try:
        return parse(text), None, None
    except Refusal as error:
        return None, "refused", str(error)
    except Malformed as error:
        return None, "malformed_answer", str(error)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count the children, and the unusable answers by reason."""
    children = answers.column("children").flatten()
    drops = children.field("drop").drop_null()
    counts: dict[str, int] = {}
    for reason in drops.to_pylist():
        counts[reason] = counts.get(reason, 0) + 1
    counted = {"children": len(children), "chunks": len(answers.column("chunks").flatten())}
    counted["unsent"] = counts.pop(TAKEN_DOWN, 0)
    counted["copies"] = pc.sum(pc.greater_equal(children.field("similarity"), COPY)).as_py() or 0
    return {**counted, "unusable": counts, "scopes": {scope_of(config): 1}}


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    bad = {reason: count for reason, count in found.get("unusable", {}).items() if count}
    if not found.get("children"):
        return [Warned("no_effect", "it made no document: no document of its parents was left. Check their steps")]
    least, answers, messages = MIN_WARNED_SHARE * found["children"], counted(found["children"], "answer"), Warnings()
    if sum(bad.values()) >= max(least, 1):
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(bad.items()))
        messages.add(
            "unusable_answers",
            f"{sum(bad.values()):,} of {answers} cannot be used ({reasons}). Check the prompts, max_tokens and the "
            "server; `again: 1` asks again what servers failed to answer",
        )
    if found.get("copies", 0) >= max(least, 1):
        messages.add(
            "copied_answers",
            f"{found['copies']:,} of {answers} are near copies of the text that was sent (parent_similarity is at "
            f"least {COPY:g}). Check the prompts; the step faithful with max_copied_share drops copies",
        )
    return messages


STAGE = Map(
    version=4,
    config=Config,
    libraries=("unicode",),
    resources=resources,
    check=check,
    warnings=warnings,
    reads=READS,
    may_read=MAY_READ,
    only_kept=True,
    judges=False,
    schema=SCHEMA,
    setup=setup,
    apply=apply,
    metrics=metrics,
    answers=scope_of,
    requests=requests_in,
    children="gristmill_generate.generated",
)
