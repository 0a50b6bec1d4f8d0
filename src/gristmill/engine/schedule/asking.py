"""What a step that asks a model will cost, estimated from a sample, and how far it is."""

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gristmill.counted import counted
from gristmill.engine.plan.graph import Node
from gristmill.engine.work.rows import read_batches
from gristmill.engine.work.task import MapWork
from gristmill.stages.calls import RequestFields
from gristmill.stages.contract import Map
from gristmill.stages.declarations import stage_of
from gristmill.store.answers import FOLDER, AnswerLog, usage_in

if TYPE_CHECKING:
    from gristmill.engine.schedule.run_context import RunContext

SAMPLED_PARTS, SAMPLED_ROWS = 8, 2000
TOKEN_BYTES = 4
"""Assumed bytes of a token, until a server has counted some."""
REPORT_S = 15.0
"""Seconds between lines about progress."""
CONNECT_S = 5.0


@dataclass(frozen=True)
class AskingEstimate:
    """What the requests of a step will cost."""

    requests: int
    missing: int
    """Requests without a stored answer."""
    prompt_tokens: int
    """Tokens of the missing requests."""
    completion_tokens: int
    """Tokens of their answers: as many as stored ones have on average, or at most `max_tokens` each."""
    is_bound: bool
    money: float
    documents: int
    """Documents in the sample."""
    token_bytes: float
    """Bytes of a token: those of the requests in the sample that are answered, or TOKEN_BYTES."""
    is_counted: bool
    """Whether servers counted these tokens."""

    def __str__(self) -> str:
        if not self.missing:
            return f"about {counted(self.requests, 'request')}, all of them answered before"
        most = "at most" if self.is_bound else "about"
        cost = f", {most} {self.money:,.2f} at these prices" if self.money else ""
        return (
            f"about {counted(self.requests, 'request')}, {self.missing:,} not answered before: "
            f"{counted(self.prompt_tokens, 'token')} to send and {most} {self.completion_tokens:,} to receive{cost} "
            f"(from a sample of {counted(self.documents, 'document')}, at {self.token_bytes:.3g} bytes per token"
            f"{', as in stored answers' if self.is_counted else ''})"
        )


def _settings_of(node: Node) -> tuple[RequestFields, str]:
    """The config of a step that asks a model, and the scope of its stored answers."""
    scope = stage_of(node.module, Map).scope_of(node.config)
    assert scope is not None
    assert isinstance(node.config, RequestFields)
    return node.config, scope


def _cost_of(prompt_tokens: float, completion_tokens: float, config: RequestFields) -> float:
    """What the servers charge for some answers."""
    return (prompt_tokens * config.price.input + completion_tokens * config.price.output) / 1e6


def estimate_asking(run: "RunContext", node: Node) -> AskingEstimate | None:
    """What a step will cost, from the documents that the steps before it have processed; None if there are none."""
    config, scope = _settings_of(node)
    requests_in = stage_of(node.module, Map).requests
    assert requests_in is not None
    ready = [
        document
        for source in node.sources
        for document in run.documents.get(source, ())
        if all(run.has_layer(layer, document) for layer in node.views[source].layers)
    ]
    step = max(1, -(-len(ready) // SAMPLED_PARTS))
    log = AnswerLog(run.store, scope, is_read_only=True)
    rows = requests = stored = size = stored_size = tokens = 0
    for document in ready[::step]:
        view = node.views[document.source]
        work = MapWork(node.module, node.config, run.view(document, node), view.columns, view.gates, {})
        for batch in read_batches(work, run.store)[1]:
            asks = requests_in(batch.columns.slice(0, SAMPLED_ROWS), node.config)
            known = log.find_costs([ask.key for ask in asks])
            rows += min(batch.rows, SAMPLED_ROWS)
            requests, stored = requests + len(asks), stored + len(known)
            size += sum(ask.text_bytes for ask in asks)
            stored_size += sum(ask.text_bytes for ask in asks if ask.key in known)
            tokens += sum(cost.prompt_tokens for cost in known.values())
            if batch.rows > SAMPLED_ROWS or rows > SAMPLED_PARTS * SAMPLED_ROWS:
                break
    if not rows:
        return None
    scale = sum(document.part.rows for document in ready) / rows
    usage = usage_in(run.store, f"{FOLDER}/{scope}")
    each = usage.completion_tokens / usage.answers if usage.answers else config.most_answer_tokens
    missing = round(scale * (requests - stored))
    token_bytes = stored_size / tokens if tokens else TOKEN_BYTES
    prompt, completion = round(scale * (size - stored_size) / token_bytes), round(missing * each)
    money = _cost_of(prompt, completion, config)
    is_bound = not usage.answers
    return AskingEstimate(
        round(scale * requests), missing, prompt, completion, is_bound, money, rows, token_bytes, tokens > 0
    )


async def report_asking(run: "RunContext", node: Node) -> None:
    """Note the progress of a step now and then: rate, cost and the time left."""
    config, scope = _settings_of(node)
    folder = f"{FOLDER}/{scope}"
    expected = await asyncio.to_thread(estimate_asking, run, node)
    first = await asyncio.to_thread(usage_in, run.store, folder)
    begun = time.monotonic()
    while True:
        await asyncio.sleep(REPORT_S)
        now = await asyncio.to_thread(usage_in, run.store, folder)
        new, seconds = now.answers - first.answers, time.monotonic() - begun
        prompt, completion = (now[part] - first[part] for part in (0, 1))
        money = _cost_of(prompt, completion, config)
        cost = f", {money:,.2f} spent" if money else ""
        left = max((expected.missing if expected else 0) - new, 0)
        wait_s = left * seconds / max(new, 1)
        wait = f"{wait_s / 60:,.0f} min" if wait_s >= 90 else f"{wait_s:,.0f} s"
        eta = f"; about {left:,} left, {wait}" if new and left else ""
        rate = f"{new:,} answers, {new / seconds:,.1f}/s, {(prompt + completion) / seconds:,.0f} tokens/s"
        down = await unreachable(config.servers)
        faults = f"; no connection from here to {', '.join(down)}" if down else ""
        run.listener.note(f"{node.id}: {rate}{cost}{eta}{faults}")


async def unreachable(servers: Sequence[str]) -> list[str]:
    """The addresses that accept no connection, with the reason. Workers send to the others, or wait, without a word."""

    async def attempt(address: str) -> str | None:
        parts = urlsplit(address)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(parts.hostname, port), CONNECT_S)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else "no answer"
            return f"{address} ({why})"
        writer.close()
        return None

    return [fault for fault in await asyncio.gather(*map(attempt, servers)) if fault is not None]
