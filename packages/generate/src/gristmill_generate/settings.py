"""The settings of steps that ask a model: what a request says, which is in the task key, and where it goes, which is
not.
"""

import os
import re
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from gristmill.stages.config_types import Count
from gristmill.stages.contract import AsCount, Bytes, File, ReportMark, StageConfig

READY = os.path.join(os.path.dirname(__file__), "ready")
Ready = Literal["dialogue", "knowledge_list", "question_answer", "rephrase", "table", "textbook", "translation"]
"""The prompts that come with the package."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def _server(value: str) -> str:
    try:
        parts = urlsplit(value)
        is_host = bool((parts.hostname or "").encode("idna")) and parts.port != 0 and " " not in parts.netloc
        is_server = is_host and parts.scheme in ("http", "https") and not parts.query and not parts.fragment
    except ValueError:  # of a port above 65,535, or a name that no host can have
        is_server = False
    if not is_server or not value.isprintable():
        raise ValueError(f"{_bare(value)!r} is not the address of a server, or has a query. Write http://HOST:PORT/v1")
    if re.search(r"[^!-~]", parts.path):
        raise ValueError(
            f"the path of {_bare(value)!r} has white space or letters that are not ASCII. Write them as %XX"
        )
    if parts.username or parts.password:
        raise ValueError("an address must not contain a password. Name a variable in api_key_env")
    return value.rstrip("/")


def _bare(value: str) -> str:
    return re.sub(r"[?#].*", "", re.sub(r"//[^/]*@", "//", value), flags=re.DOTALL)  # a query may hold a signature


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise ValueError(
            "this is not the name of an environment variable. Write the name of the variable that has the key, and "
            "never the key itself"
        )
    return value


def _located(prompt: str) -> str:
    return ready_path(prompt) if prompt in get_args(Ready) else prompt


def ready_path(name: str) -> str:
    """The file of a ready prompt."""
    return os.path.join(READY, f"{name}.yaml")


class Sampling(StageConfig):
    """How the model samples; null leaves a value to the server."""

    temperature: float | None = Field(default=None, ge=0, le=10)
    """The temperature; 0 is greedy."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Nucleus sampling: the share of the probability that is sampled from."""
    top_k: int | None = Field(default=None, ge=1, le=999)
    """How many tokens are sampled from (vLLM, SGLang, llama.cpp)."""
    max_tokens: Count = 2048
    """The most tokens of an answer; a longer one is dropped with the reason answer_truncated."""


class Price(StageConfig):
    """What a server charges, in any currency."""

    input: float = Field(default=0.0, ge=0)
    """for a million tokens of requests"""
    output: float = Field(default=0.0, ge=0)
    """for a million tokens of answers"""


class TokenBudget(StageConfig):
    """The most that all stored answers of this model and these sampling settings may cost, over all runs."""

    tokens: Annotated[int, AsCount, Field(ge=1)] | None = None
    """in tokens, of requests and answers together"""
    money: float | None = Field(default=None, gt=0)
    """in the currency of price"""


class Serve(StageConfig):
    """A server that each worker starts for itself."""

    command: tuple[str, ...] = Field(min_length=1)
    """The program and its arguments; {port} is replaced by a free port. No shell is involved."""
    gpus: int = Field(default=0, ge=0, le=999)
    """Whole GPUs that it needs."""
    memory: Bytes = 0
    """Memory that it needs."""
    health: str = "/health"
    """The path that answers with 200 once it is ready."""
    ready_s: float = Field(default=1800, gt=0)
    """Seconds that it may take to be ready."""


class RequestLimits(StageConfig):
    """When a request counts as failed. Servers are outside, so these are seconds."""

    idle_s: float = Field(default=120, gt=0)
    """Seconds without a byte of the answer."""
    total_s: float = Field(default=900, gt=0)
    """Seconds for the whole answer."""
    answer_bytes: Bytes = 4 << 20
    """The most bytes of an answer."""
    patience_s: float = Field(default=600, ge=0)
    """Seconds for which a server that does not answer, or is too busy, is tried again before the run stops."""


class RequestConfig(StageConfig):
    """The settings of a step that sends requests to a model (gristmill.stages.calls.RequestFields)."""

    model: str = Field(min_length=1)
    """The name of the model, as its servers know it."""
    revision: str = ""
    """The revision of its weights, such as a commit: another one asks everything again."""
    sampling: Sampling = Sampling()
    """How the model samples."""
    again: int = Field(default=0, ge=0, le=999)
    """Raise it to ask again what servers failed to answer; stored answers stay."""
    servers: Annotated[tuple[Annotated[str, AfterValidator(_server)], ...], ReportMark()] = ()
    """The addresses of OpenAI-compatible servers of the model, up to and including /v1."""
    serve: Annotated[Serve | None, ReportMark()] = None
    """A server to start in each worker, instead of `servers`."""
    api_key_env: Annotated[Annotated[str, AfterValidator(_variable)] | None, ReportMark()] = None
    """The name of the environment variable that has the API key."""
    concurrency: Annotated[int, ReportMark(), Field(ge=1, le=999)] = 64
    """The most requests at once to each server."""
    limits: Annotated[RequestLimits, ReportMark()] = RequestLimits()
    """When a request counts as failed."""
    price: Annotated[Price, ReportMark()] = Price()
    """What the servers charge for a million tokens."""
    budget: Annotated[TokenBudget | None, ReportMark()] = None
    """Where the run stops; it continues when the budget is raised."""

    @property
    def most_answer_tokens(self) -> int:
        return self.sampling.max_tokens


class GenerateConfig(RequestConfig):
    """The settings of `generate`."""

    prompts: Annotated[tuple[Annotated[Ready | File, AfterValidator(_located)], ...], Field(min_length=1)]
    """Prompt files, or the names of ready prompts; each document is sent with each of them."""
    values: dict[str, str] = Field(default_factory=dict)
    """Values of other fields that prompts name, such as target_language."""
    samples: int = Field(default=1, ge=1, le=999)
    """Answers to each prompt for each chunk, with different seeds."""
    chunk_bytes: Bytes = Field(default=8000, ge=16)
    """The most bytes of text in one request. Longer documents are cut between paragraphs."""
    seed: int = 0
    """The seeds of requests derive from it."""
