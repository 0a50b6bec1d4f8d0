"""Counts what a manifest draws of every group in every phase."""

from collections.abc import Mapping
from typing import Any

from gristmill.stages.mix.continued import drawn_of
from gristmill.stages.mix.numbers import exact


def tally(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Nested counts. Requested shares are in billionths; tokens do not include padding.

    groups: available tokens and samples, samples drawn by all phases, and the most samples that the cap allows
    phases: samples and tokens; by domain and group also the requested share (target)
    """
    groups = {group["name"]: group for group in manifest["groups"]}
    found: dict[str, Any] = {"groups": {}, "phases": {}}
    for name, group in groups.items():
        cap = int(exact(group["max_epochs"]) * group["samples"])
        counts = {"tokens": group["tokens"], "samples": group["samples"], "drawn_samples": 0, "cap_samples": cap}
        found["groups"][name] = counts
    for phase in manifest["phases"]:
        drawn = drawn_of(phase)
        domains: dict[str, Any] = {}
        for name in sorted({*drawn, *phase["targets"]}):
            group, samples = groups[name], drawn.get(name, 0)
            found["groups"][name]["drawn_samples"] += samples
            domain = domains.setdefault(group["domain"] or "", {"tokens": 0, "target": 0, "groups": {}})
            tokens = (2 * samples * group["tokens"] + group["samples"]) // (2 * group["samples"])
            target = round(phase["targets"].get(name, 0) * 10**9)
            domain["groups"][name] = {"samples": samples, "tokens": tokens, "target": target}
            domain["tokens"] += tokens
            domain["target"] += target
        found["phases"][phase["name"]] = {
            "samples": phase["samples"],
            "tokens": sum(domain["tokens"] for domain in domains.values()),
            "domains": domains,
        }
    return found
