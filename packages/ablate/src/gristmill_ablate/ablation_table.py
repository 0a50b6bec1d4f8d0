"""What `gristmill ablate` shows: plans, verdicts, sweeps."""

from collections.abc import Mapping, Sequence
from typing import Any

from gristmill.cli.shared.options import print_json
from gristmill.cli.shared.screen import print_paragraph
from gristmill.cli.shared.show import console, table
from gristmill.counted import counted, duration
from gristmill.engine.mill import Mill
from gristmill.errors import UserError
from gristmill_ablate.ablation import AblationResult
from gristmill_ablate.proxy.verdict import OVERALL, TaskScore
from gristmill_ablate.setups import AblationPlan
from gristmill_ablate.sweep import Variant, judge


def show_plan(plan: AblationPlan | None, variants: Sequence[Variant], json: bool) -> None:
    """What would be trained; of a sweep, also what its recipes would run."""
    runs = []
    for variant in variants:
        run = Mill(variant.recipe).dry_run()
        states = run.states.values()
        cached, missing = sum(len(state.tasks) for state in states), sum(len(state.missing) for state in states)
        waiting = sum(state.waiting for state in states)
        runs.append({"label": variant.label, "cached": cached, "to_run": missing, "waiting": waiting})
    if json:
        print_json({"plan": None if plan is None else plan.to_json(), "variants": runs})
        return
    if runs:
        rows = [
            (str(run_counts["label"]), *(f"{run_counts[name]:,}" for name in ("cached", "to_run", "waiting")))
            for run_counts in runs
        ]
        console().print(table(("variant", "tasks cached", "to run", "waiting"), rows))
    if plan is None:
        print_paragraph("Nothing was measured for this size on this device, so time and noise are not known.")
        return
    sides = plan.trainings // plan.seeds
    print_paragraph(
        f"{counted(plan.trainings, 'training')}: {counted(plan.seeds, 'seed')} of each of {sides} corpora, size "
        f"{plan.setup.size}, {counted(plan.setup.tokens, 'token')} each. About {duration(plan.seconds)} on "
        f"{'this machine' if plan.hardware == 'cpu' else plan.hardware}."
    )
    print_paragraph(
        f"Smallest difference that this would probably show: {100 * plan.smallest:.1f}% bits per byte"
        f"{'' if plan.measured else ' (extrapolated from other sizes)'}."
    )


def show(a: str, b: str, result: AblationResult) -> None:
    """A table of the tasks, what does not count, and the verdict."""
    rows = [
        (task.name, f"{task.items:,}", f"{task.a:.3f}", f"{task.b:.3f}", *_difference(task))
        for task in result.tasks
        if task.name != OVERALL
    ]
    columns = ("task", "items", "A", "B", "B - A", "95% interval", "signal/noise", "weight", "verdict")
    out = console()
    out.print(f"Bits per byte (less is better). A: {a}. B: {b}.")
    out.print(table(columns, rows))
    for remark in result.remarks:
        print_paragraph(f"NOTE: {remark}")
    overall, trained = result.overall, _trained(result)
    scored, items = f"{result.scored:,}", counted(result.suite_items, "item")
    print_paragraph(f"{scored} of {items} of the suite were scored, and {result.counting:,} count.")
    if overall is None:
        print_paragraph(f"No evidence: no item counts ({trained}).")
        return
    low, high = (f"{100 * value:+.2f}%" for value in (overall.low, overall.high))
    print_paragraph(
        f"B is {overall.verdict if overall.verdict != 'no evidence' else 'neither better nor worse, by this evidence'}:"
        f" {100 * overall.difference:+.2f}% bits per byte ({low} to {high}), {trained}. The smallest difference that "
        f"this could have seen: {100 * overall.smallest:.2f}%."
    )


def show_same(json: bool) -> None:
    """A and B draw the same samples."""
    if json:
        print_json({"verdict": "same"})
    else:
        print_paragraph("A and B are the same corpus: the same shards and the same mixture. Nothing was trained.")


def show_verdicts(records: Sequence[Mapping[str, Any]], json: bool) -> None:
    """Each verdict with the differences of the recipes."""
    for record in records:
        if json:
            print_json(record)
            continue
        setup, items, overall = record["setup"], record["items"], record["tasks"][-1] if record["tasks"] else None
        low, high = (f"{100 * overall[end]:+.2f}%" for end in ("low", "high")) if overall else ("", "")
        numbers = f" ({low} to {high} bits per byte)" if overall else ""
        ended, models = record["ended"][:16].replace("T", " "), counted(record["seeds"], "pair")
        print_paragraph(
            f"{ended}  {record['B']['name']} against {record['A']['name']}: {record['verdict']}{numbers}, {models} of "
            f"{setup['size']} models, suite {record['suite'][:12]}, {items['counting']:,} of "
            f"{counted(items['suite'], 'item')} count."
        )
        for step, changes in record["changes"].items():
            print_paragraph(f"  {step}: {'; '.join(changes)}")
    if not records and not json:
        print_paragraph("No ablation has kept a verdict in this store.")


def _trained(result: AblationResult) -> str:
    setup = result.setup
    return f"{counted(result.seeds, 'pair')} of {setup.size} models, {counted(setup.tokens, 'token')} each"


def _difference(task: TaskScore) -> tuple[str, str, str, str, str]:
    interval = f"{task.low:+.3f} to {task.high:+.3f}"
    return f"{task.difference:+.3f}", interval, f"{task.signal_to_noise:.1f}", f"{100 * task.weight:.0f}%", task.verdict


def show_sweep(a: str, results: Mapping[str, AblationResult], json: bool) -> None:
    """All variants against the recipe as it is."""
    judged = judge(results)
    if not judged:
        raise UserError(f"Every item of the suite is in the training data of {a}, so nothing can be compared.")
    first = next(iter(results.values()))
    if json:
        results_by_label = {name: result.to_json() for name, result in results.items()}
        print_json([{"variant": task.name, **results_by_label[task.name], "verdict": task.verdict} for task in judged])
        return
    rows = [
        (
            task.name,
            f"{100 * task.difference:+.2f}%",
            f"{100 * task.low:+.2f}% to {100 * task.high:+.2f}%",
            task.verdict,
        )
        for task in judged
    ]
    console().print(f"Bits per byte against {a} as it is (less is better).")
    console().print(table(("variant", "difference", "95% interval", "verdict"), rows))
    for remark in dict.fromkeys(remark for result in results.values() for remark in result.remarks):
        print_paragraph(f"NOTE: {remark}")
    names_by_verdict = {
        verdict: [task.name for task in judged if task.verdict == verdict] for verdict in ("better", "worse")
    }
    better, worse = (", ".join(names) or "none" for names in names_by_verdict.values())
    smallest, unclear = max(task.smallest for task in judged), len(judged) - sum(map(len, names_by_verdict.values()))
    print_paragraph(
        f"Better: {better}. Worse: {worse}. No evidence: {unclear} of {len(judged)}. "
        f"Corrected for {counted(len(judged), 'comparison')}; {_trained(first)}. The smallest difference that this "
        f"could have seen: {100 * smallest:.2f}%."
    )
