"""gristmill budget: how many tokens a model of a given size needs, and what they cost."""

from typing import Annotated, Any

import typer

from gristmill.cli.run.mix_table import short
from gristmill.cli.shared.options import Json, is_run, parsed, print_json
from gristmill.cli.shared.show import console, table
from gristmill.counted import counted
from gristmill.engine.publish.catalog import SHARDS_FOLDER
from gristmill.engine.publish.folder import LATEST
from gristmill.errors import UserError
from gristmill.recipe.load import load
from gristmill.stages.config_types import parse_count
from gristmill.stages.mix.continued import read_manifest
from gristmill.stages.mix.options import MAX_EPOCHS

EXAMPLE = "Example: gristmill budget --params 7e9 --tokens 2T --gpus 512"

OPTIMAL = 20
"""Tokens per parameter with the lowest loss for the FLOPs (Hoffmann et al. 2022)."""
WEAK = 100
"""Times `OPTIMAL`: beyond, a model still improves (to 500 times: Sardana et al. 2024, arXiv 2401.00448), but so little
that a larger model or other data would give more, and it becomes harder to fine-tune (Springer et al. 2025, arXiv
2503.19206)."""
STOCK = 320e12
"""Effective tokens of public text by people: about 300T, 90% interval 100T to 1000T (Villalobos et al. 2024)."""
MODELS = (
    ("Chinchilla 70B", 70e9, 1.4e12, "arXiv 2203.15556, 2022-03"),
    ("Llama 3 405B", 405e9, 15.6e12, "arXiv 2407.21783, 2024-07"),
    ("Llama 2 70B", 70e9, 2e12, "arXiv 2307.09288, 2023-07"),
    ("Llama 2 7B", 7e9, 2e12, "arXiv 2307.09288, 2023-07"),
    ("OLMo 2 13B", 13e9, 5e12, "arXiv 2501.00656, 2024-12"),
    ("DeepSeek-V3", 37e9, 14.8e12, "arXiv 2412.19437, 2024-12; its 37B active parameters"),
    ("Gemma 3 27B", 27e9, 14e12, "arXiv 2503.19786, 2025-03"),
    ("Llama 3 8B", 8e9, 15e12, "arXiv 2407.21783, 2024-07"),
    ("Qwen3 8B", 8e9, 36e12, "arXiv 2505.09388, 2025-05"),
    ("SmolLM2 1.7B", 1.7e9, 11e12, "arXiv 2502.02737, 2025-02"),
)
"""Published models: parameters, training tokens, and the source with its date."""
FEWEST_PARAMS = 10**6
"""The smallest model that is plausible."""
MOST = 10**24
"""Larger numbers are typing mistakes."""
FLOPS_PER_TOKEN = 6
"""Times parameters: 2 forward, 4 backward (Kaplan et al. 2020)."""


def command(
    params: Annotated[str, typer.Option(metavar="N", help="Parameters of the model: 7e9, 7B, 1.5T.")],
    tokens: Annotated[str | None, typer.Option(metavar="N", help="Number of training tokens to check: 2T.")] = None,
    gpus: Annotated[str | None, typer.Option(metavar="N", help="Compute the days on this many GPUs.")] = None,
    flops_per_gpu: Annotated[
        str, typer.Option(metavar="N", help="Peak FLOP/s of one GPU. Default: H100, dense BF16.")
    ] = "989e12",
    mfu: Annotated[float, typer.Option(metavar="SHARE", help="Share of the peak that training reaches.")] = 0.4,
    corpus: Annotated[
        str | None,
        typer.Option(
            metavar="RECIPE",
            help="Compute epochs over the tokens of a recipe's shards; also STORE@RECIPE, or a manifest.json.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show how many tokens a model needs, and what they cost.

    Shows targets from compute-optimal to far over-trained, and those of published models, with their FLOPs and their
    share of the text that there is.
    """
    if not 0 < mfu <= 1:
        hint = f" Did you mean {mfu / 100:g}?" if 1 < mfu <= 100 else ""
        raise UserError(f"--mfu {mfu:g} is not a share, so days are unknown. Give a number above 0, up to 1.{hint}")
    size = _count("--params", params)
    if size < FEWEST_PARAMS:
        hint = f"Did you mean {size}B?" if size < 1000 else "Give a size such as 125M or 7B."
        raise UserError(
            f"--params {params} is a model with {counted(size, 'parameter')}, too few to train on text, so "
            f"nothing was computed. {hint}"
        )
    chosen = None if tokens is None else _count("--tokens", tokens)
    speed = None if gpus is None else _count("--gpus", gpus) * _count("--flops-per-gpu", flops_per_gpu) * mfu
    manifest = None if corpus is None else _manifest(corpus)
    available = None if manifest is None else sum(group["tokens"] for group in manifest["groups"])
    ratios: list[tuple[str, float, str]] = [("compute-optimal", OPTIMAL, "arXiv 2203.15556, 2022-03")]
    ratios += [(f"{times} x optimal", times * OPTIMAL, "") for times in (50, WEAK)]
    ratios += [(f"as {name}", count / parameters, source) for name, parameters, count, source in MODELS]
    wanted = [(name, round(size * ratio), source) for name, ratio, source in sorted(ratios, key=lambda one: one[1])]
    if chosen is not None:
        wanted.append(("requested", chosen, ""))
    targets = [_target(name, size, count, source, speed, available) for name, count, source in wanted]
    answer = {"params": size, "targets": targets, "corpus_tokens": available, "stock": STOCK}
    print_json(answer) if json else _show(answer)


def _manifest(corpus: str) -> dict[str, Any]:
    """The manifest of --corpus: that of a recipe's latest shards, or one named directly."""
    if is_run(corpus):
        store, _, name = corpus.rpartition("@")
        return read_manifest(f"{store}/{SHARDS_FOLDER}/{name}/{LATEST}")
    if not corpus.endswith((".yaml", ".yml")):
        return read_manifest(corpus)
    recipe = load(corpus)
    try:
        return read_manifest(f"{recipe.store}/{SHARDS_FOLDER}/{recipe.name}/{LATEST}")
    except UserError as error:
        raise UserError(f"--corpus {corpus} has no shards: {error} Make them: gristmill run {corpus}") from None


def _count(option: str, text: str) -> int:
    found = int(parsed(option, text, parse_count, "nothing can be computed"))
    if not 1 <= found <= MOST:
        raise UserError(f"{option} {text} is out of range, so nothing can be computed. Give one such as 7e9 or 2T.")
    return found


def _target(
    name: str, params: int, tokens: int, source: str, speed: float | None, available: int | None
) -> dict[str, Any]:
    flops = FLOPS_PER_TOKEN * params * tokens
    times, epochs = tokens / params / OPTIMAL, None if not available else tokens / available
    weak = times > WEAK or (epochs is not None and epochs > MAX_EPOCHS)
    return {
        "name": name,
        "tokens": tokens,
        "tokens_per_param": tokens / params,
        "times_optimal": times,
        "stock_share": tokens / STOCK,
        "regime": "weak" if weak else "under-trained" if times < 1 else "over-trained" if times > 1 else "optimal",
        "source": source,
        "flops": flops,
        "days": None if speed is None else flops / speed / 86400,
        "epochs": epochs,
    }


def _show(answer: dict[str, Any]) -> None:
    out = console()
    columns = ["target", "tokens", "per parameter", "x optimal", "FLOPs", "of stock"]
    shown = [key for key in ("days", "epochs") if answer["targets"][0][key] is not None]
    rows = [
        (
            one["name"],
            short(one["tokens"]),
            f"{one['tokens_per_param']:,.4g}" if one["tokens_per_param"] < 1000 else f"{one['tokens_per_param']:,.0f}",
            f"{one['times_optimal']:,.3g}" if one["times_optimal"] < 1000 else f"{one['times_optimal']:,.0f}",
            f"{one['flops']:.2e}",
            f"{one['stock_share']:.2%}",
            *(f"{one[key]:,.2f}" for key in shown),
            one["regime"],
            one["source"],
        )
        for one in answer["targets"]
    ]
    out.print(table((*columns, *shown, "regime", "source"), rows))
    out.print(
        f"\nweak: more than {WEAK} x optimal, or more than {MAX_EPOCHS:g} epochs; more tokens of this kind improve the "
        "model little, and a larger model or other text improves it more."
    )
    out.print(
        f"stock: {short(STOCK)} effective tokens of public text by people; the estimate is about 300T, 90% interval "
        "100T to 1000T (Villalobos et al., arXiv 2211.04325, 2024-06)."
    )
    if answer["corpus_tokens"] is not None:
        out.print(
            f"The corpus has {short(answer['corpus_tokens'])} tokens; beyond {MAX_EPOCHS:g} epochs, repetition helps "
            "less and less."
        )
