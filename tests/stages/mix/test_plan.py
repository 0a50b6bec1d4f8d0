"""From groups to phases of samples: shares, caps, order."""

import random
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.stages.mix.plan import cap_samples, phases_of, plan
from stages.mix.mixing import DOMAINS, TIERS, group, mix_options, multipliers, ratios, some_groups, tokens_by

NO_CAP = 1e12
some = settings(max_examples=40, deadline=None)


def most_tokens_a_sample(groups):
    return max(Fraction(one.tokens, one.samples) for one in groups)


@some
@given(some_groups(), ratios, multipliers, st.integers(1, 10**8))
def test_samples_add_up_to_the_budget(groups, domains, tiers, tokens):
    """The tokens of all samples are the budget, to within a sample per group."""
    (phase,) = plan(groups, mix_options(domains=domains, tiers=tiers, tokens=tokens, max_epochs=NO_CAP))
    assert phase.samples == sum(phase.weights.values()) > 0
    assert sum(phase.targets.values()) == 1
    drawn = sum(tokens_by(groups, phase.weights, lambda one: one.name).values())
    assert abs(drawn - tokens) <= len(groups) * most_tokens_a_sample(groups)


@some
@given(some_groups(), ratios, multipliers, st.integers(10**6, 10**9))
def test_shares_follow_the_formula(groups, domains, tiers, tokens):
    """ratio of the domain * tokens * multiplier / their sum in the domain, for the domains that are not empty."""
    (phase,) = plan(groups, mix_options(domains=domains, tiers=tiers, tokens=tokens, max_epochs=NO_CAP))
    there = {one.domain for one in groups}
    whole = sum(Fraction(str(domains[domain])) for domain in there)
    for one in groups:
        inside = sum(other.tokens * Fraction(tiers[other.tier]) for other in groups if other.domain == one.domain)
        ratio = Fraction(str(domains[one.domain])) / whole
        target = ratio * one.tokens * Fraction(tiers[one.tier]) / inside
        assert phase.targets[one.name] == target
        drawn = Fraction(phase.weights.get(one.name, 0) * one.tokens, one.samples)
        assert abs(drawn - target * tokens) <= most_tokens_a_sample(groups)


@some
@given(some_groups(10**5), ratios, st.integers(10**7, 10**9))
def test_a_tier_of_4_is_drawn_four_times_as_often_per_token(groups, domains, tokens):
    """This holds within a domain if no cap is reached, to within a sample."""
    tiers = {"A": 4.0, "B": 1.0, "C": 1.0}
    (phase,) = plan(groups, mix_options(domains=domains, tiers=tiers, tokens=tokens, max_epochs=NO_CAP))
    epochs = {one.name: Fraction(phase.weights.get(one.name, 0), one.samples) for one in groups}
    for one in groups:
        for other in groups:
            if one.domain == other.domain and one.tier == "A" and other.tier == "B":
                off = Fraction(1, one.samples) + Fraction(4, other.samples)
                assert abs(epochs[one.name] - 4 * epochs[other.name]) <= off


@some
@given(some_groups(), ratios, multipliers, st.integers(1, 10**8), st.integers(1, 8))
def test_no_cap_is_exceeded_while_another_group_has_text(groups, domains, tiers, tokens, quarters):
    """If one group is above its cap, all have reached theirs."""
    options = mix_options(domains=domains, tiers=tiers, tokens=tokens, max_epochs=quarters / 4)
    (phase,) = plan(groups, options)
    caps = {one.name: cap_samples(one, phases_of(options)[0]) for one in groups}
    over = {name: count - caps[name] for name, count in phase.weights.items() if count > caps[name]}
    assert over == {name: count for name, count in phase.at_caps.items() if count}
    if over:
        assert all(phase.weights.get(name, 0) >= cap for name, cap in caps.items())


@some
@given(some_groups(10**5), ratios, multipliers, st.integers(10**5, 10**7), st.integers(1, 8))
def test_a_domain_keeps_its_ratio_until_it_is_used_up(groups, domains, tiers, tokens, quarters):
    """Caps move draws within a domain first: a domain falls short only if all of it is at its caps."""
    (phase,) = plan(groups, mix_options(domains=domains, tiers=tiers, tokens=tokens, max_epochs=quarters / 4))
    slack = (len(groups) + 1) * most_tokens_a_sample(groups)
    drawn = tokens_by(groups, phase.weights, lambda one: one.domain)
    for domain in drawn:
        inside = [one for one in groups if one.domain == domain]
        target = sum(phase.targets[one.name] for one in inside) * tokens
        if drawn[domain] < target - slack:
            assert all(one.name in phase.at_caps for one in inside)


@some
@given(some_groups(), ratios, multipliers, st.sampled_from((2.0, 10.0, 0.5)), st.integers(1, 10**7))
def test_only_the_proportions_of_ratios_count(groups, domains, tiers, factor, tokens):
    """If all ratios and multipliers are doubled, the plan is the same."""
    first = plan(groups, mix_options(domains=domains, tiers=tiers, tokens=tokens))
    scaled = {name: ratio * factor for name, ratio in domains.items()}
    assume(all(Fraction(str(scaled[name])) == Fraction(str(domains[name])) * Fraction(factor) for name in domains))
    doubled = {name: 2 * value for name, value in tiers.items()}
    assert plan(groups, mix_options(domains=scaled, tiers=doubled, tokens=tokens)) == first


@some
@given(some_groups(), ratios, multipliers, st.randoms(use_true_random=False))
def test_the_order_of_groups_changes_nothing(groups, domains, tiers, shuffled):
    """This also holds with equal remainders and with caps."""
    options = mix_options(domains=domains, tiers=tiers, max_epochs=1)
    first = plan(groups, options)
    others = list(groups)
    shuffled.shuffle(others)
    assert plan(others, options) == first


@some
@given(some_groups(), ratios, multipliers, multipliers, st.lists(st.integers(1, 10**7), min_size=2, max_size=4))
def test_a_later_phase_gets_what_it_would_get_alone(groups, domains, tiers, late, tokens):
    """While the caps allow the whole budget, the last phase does not depend on the phases before it."""
    phases = [{"name": f"p{at}", "tokens": count} for at, count in enumerate(tokens)]
    phases[-1]["tiers"] = late
    options = {"domains": domains, "tiers": tiers, "max_epochs": 2}
    whole = plan(groups, mix_options(**options, phases=phases))
    assume(not any(over for phase in whole for over in phase.at_caps.values()))
    room = sum(tokens_by(groups, {one.name: 2 * one.samples for one in groups}, lambda one: "").values())
    assume(sum(tokens) + 2 * len(tokens) * len(groups) * most_tokens_a_sample(groups) < room)
    assert whole[-1].weights == plan(groups, mix_options(**options, phases=phases[-1:]))[0].weights


@some
@given(some_groups(), ratios, st.integers(1, 10**7), st.integers(1, 10**7))
def test_caps_hold_over_all_phases_together(groups, domains, one_tokens, other_tokens):
    """The second phase cannot draw what the first one drew."""
    phases = [{"name": "one", "tokens": one_tokens}, {"name": "other", "tokens": other_tokens}]
    options = mix_options(domains=domains, phases=phases, max_epochs=2)
    planned = plan(groups, options)
    total = {one.name: sum(phase.weights.get(one.name, 0) for phase in planned) for one in groups}
    over = [one for one in groups if total[one.name] > 2 * one.samples]
    if over:
        assert all(total[one.name] >= 2 * one.samples for one in groups)


@some
@given(some_groups(), multipliers)
def test_natural_is_by_tokens_times_multiplier(groups, tiers):
    """Without ratios, every token with the same multiplier is drawn equally often in every domain."""
    (phase,) = plan(groups, mix_options(tiers=tiers))
    whole = sum(one.tokens * Fraction(tiers[one.tier]) for one in groups)
    assert phase.targets == {one.name: one.tokens * Fraction(tiers[one.tier]) / whole for one in groups}


@some
@given(some_groups(), st.decimals("0.1", 20, places=1).map(float))
def test_temperature_is_between_natural_and_uniform(groups, temperature):
    """1 is natural; above it, the shares of domains get closer, and their order stays."""
    sizes = tokens_by(groups, {one.name: one.samples for one in groups}, lambda one: one.domain)
    assume(len(sizes) > 1)

    def shares(**options):
        (phase,) = plan(groups, mix_options(**options))
        return {
            domain: sum(phase.targets.get(one.name, Fraction(0)) for one in groups if one.domain == domain)
            for domain in sizes
        }

    natural, uniform, found = shares(), shares(domains="uniform"), shares(temperature=temperature)
    assert shares(temperature=1.0) == natural
    assert set(uniform.values()) == {Fraction(1, len(sizes))}
    small, large = (pick(sizes, key=sizes.get) for pick in (min, max))
    assert found[small] <= found[large]
    if temperature >= 1:
        assert natural[small] <= found[small] + Fraction(1, 10**20)
        assert found[small] <= uniform[small]


@some
@given(some_groups(), ratios, st.integers(1, 10**6))
def test_a_tier_of_0_is_never_drawn(groups, domains, tokens):
    """The cooldown has only its tiers."""
    assume(any(one.tier == "A" for one in groups))
    phases = [{"name": "main", "share": 0.88}, {"name": "cooldown", "share": 0.12, "tiers": {"A": 6, "B": 1, "C": 0}}]
    main, cooldown = plan(
        groups, mix_options(domains=domains, tiers=dict.fromkeys(TIERS, 1), tokens=tokens, phases=phases)
    )
    assert {name.partition("/")[2] for name in cooldown.weights} <= {"A", "B"}
    assert {name for name in main.targets if name.endswith("/C")} == {one.name for one in groups if one.tier == "C"}


def test_a_small_example_by_hand():
    """A million tokens: two web tiers, one of them four times as often, and code, in two phases."""
    groups = [
        group("crawl/A", 100_000, 1000),
        group("crawl/B", 600_000, 6000),
        group("repos/A", 300_000, 3000, "code"),
    ]
    phases = [{"name": "main", "share": 0.9}, {"name": "cooldown", "tiers": {"A": 1, "B": 0}}]
    options = mix_options(domains={"web": 0.5, "code": 0.5}, tiers={"A": 4, "B": 1}, tokens="1M", phases=phases)
    main, cooldown = plan(groups, options)
    # 4500 samples for each domain; in web 100 * 4 : 600 * 1.
    assert main.weights == {"crawl/A": 1800, "crawl/B": 2700, "repos/A": 4500}
    assert cooldown.weights == {"crawl/A": 500, "repos/A": 500}
    assert main.targets["crawl/A"] == Fraction(1, 5)


def test_a_cap_moves_draws_within_the_domain_and_then_out_of_it():
    """With one epoch, A is used up and B fills the gap; with more tokens than web has, code fills the gap."""
    groups = [group("crawl/A", 1000, 10), group("crawl/B", 3000, 30), group("repos/A", 9000, 90, "code")]
    options = {"domains": {"web": 1, "code": 1}, "tiers": {"A": 6, "B": 1}, "max_epochs": 1}
    (inside,) = plan(groups, mix_options(**options, tokens=6000))
    assert inside.weights == {"crawl/A": 10, "crawl/B": 20, "repos/A": 30}
    (across,) = plan(groups, mix_options(**options, tokens=10_000))
    assert across.weights == {"crawl/A": 10, "crawl/B": 30, "repos/A": 60}
    (over,) = plan(groups, mix_options(**options, tokens=15_000))
    # 2000 tokens over all caps: half of them each domain, in web 6 * 10 : 30.
    assert over.weights == {"crawl/A": 17, "crawl/B": 33, "repos/A": 100}
    assert over.at_caps == {"crawl/A": 7, "crawl/B": 3, "repos/A": 10}


def test_caps_by_name():
    """The cap of a group comes before that of its source, then of its tier, then the default."""
    names = ("a/A", "a/B", "b/A", "b/B", "c/C")
    caps = {"a/A": 1, "a": 2, "A": 3, "default": 5}
    phase = phases_of(mix_options(max_epochs=caps))[0]
    assert [cap_samples(group(name, 640, 10), phase) for name in names] == [10, 20, 30, 50, 50]
    without = phases_of(mix_options(max_epochs={"a": 1.55}))[0]
    assert [cap_samples(group(name, 640, 10), without) for name in names] == [15, 15, 40, 40, 40]


def test_a_phase_with_a_lower_cap_leaves_text_to_later_ones():
    """Main may draw three epochs of A and leaves one to the cooldown."""
    groups = [group("crawl/A", 1000, 10), group("crawl/B", 100_000, 1000)]
    phases = [
        {"name": "main", "tokens": 10_000, "max_epochs": {"A": 3}},
        {"name": "cooldown", "tokens": 1000, "tiers": {"A": 1, "B": 0}},
    ]
    main, cooldown = plan(groups, mix_options(tiers={"A": 1000, "B": 1}, phases=phases))
    assert (main.weights["crawl/A"], cooldown.weights["crawl/A"]) == (30, 10)
    assert cooldown.at_caps == {"crawl/A": 0}


MIXED_TIERS = [group("crawl/A", 100_000, 1000), group("crawl/B", 1_000_000, 10_000)]


def test_the_cooldown_gets_its_share_of_the_best_tier():
    """Main would use up all four epochs of A, but leaves the cooldown what it needs, 37.5% of it."""
    phases = [{"name": "main", "share": 0.9}, {"name": "cooldown", "share": 0.1, "tiers": {"A": 6, "B": 1}}]
    main, cooldown = plan(MIXED_TIERS, mix_options(tiers={"A": 4, "B": 1}, tokens=3_000_000, phases=phases))
    assert cooldown.weights == {"crawl/A": 1125, "crawl/B": 1875}
    assert main.weights == {"crawl/A": 4000 - 1125, "crawl/B": 27_000 - (4000 - 1125)}
    assert main.at_caps == cooldown.at_caps == {"crawl/A": 0}


def test_continuing_keeps_text_for_the_cooldown():
    """Epochs that were drawn before count, and the cooldown gets the last one first."""
    phases = [{"name": "main", "tokens": 1_000_000}, {"name": "cooldown", "tokens": 200_000, "tiers": {"A": 6, "B": 1}}]
    options = mix_options(tiers={"A": 4, "B": 1}, phases=phases)
    main, cooldown = plan(MIXED_TIERS, options, {"crawl/A": 3000, "crawl/B": 5000})
    assert (main.weights["crawl/A"], cooldown.weights["crawl/A"]) == (250, 750)


def test_no_cap_is_exceeded_for_the_sake_of_a_later_phase():
    """Main has only web, so the cooldown gets more of what main does not draw."""
    groups = [group("web", 100_000, 1000, "web"), group("hq", 10_000, 100, "code")]
    late = {"name": "cooldown", "tokens": 30_000, "domains": {"web": 1, "code": 1}}
    phases = [{"name": "main", "tokens": 390_000}, late]
    main, cooldown = plan(groups, mix_options(domains={"web": 1, "code": 0}, phases=phases))
    assert (main.weights, cooldown.weights) == ({"web": 3900}, {"hq": 200, "web": 100})


def test_weights_of_documents_and_upsampling_multiply():
    """`@2` twice as often, `upsample: 3` three times, both six times; 0 leaves out a source."""
    groups = [group("a", 6400, 100), group("a@2", 6400, 100), group("b@2", 6400, 100), group("c", 6400, 100)]
    (phase,) = plan(groups, mix_options(upsample={"b": 3, "c": 0}, tokens=9 * 6400, max_epochs=9))
    assert phase.weights == {"a": 100, "a@2": 200, "b@2": 600}


def test_the_default_budget_is_all_available_tokens():
    """It has all groups that some phase may draw from, split over the phases; the tokens of a phase come first."""
    groups = [group("a/A", 6400, 100), group("a/B", 12_800, 200), group("a/C", 64_000, 1000)]
    tiers = {"A": 1, "B": 1, "C": 0}
    assert [phase.samples for phase in plan(groups, mix_options(tiers=tiers))] == [300]
    phases = [{"name": "x", "tokens": 6400}, {"name": "y", "share": 0.25}, {"name": "z"}]
    assert [phase.samples for phase in plan(groups, mix_options(tiers=tiers, phases=phases))] == [100, 50, 150]
    given_tokens = plan(groups, mix_options(tiers=tiers, phases=phases, tokens=64_000))
    assert [phase.samples for phase in given_tokens] == [100, 225, 675]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"phases": [{"name": "x", "tokens": 6401}, {"name": "y"}]}, "nothing is left.*Set the total number"),
        ({"tokens": 100, "phases": [{"name": "x", "tokens": 100}, {"name": "y"}]}, "nothing is left"),
        ({"tokens": 100, "phases": [{"name": "x", "tokens": 10}]}, "90 are in no phase.*Leave out the tokens"),
        ({"upsample": {"a": 0}}, "draws from no group"),
        ({"tiers": {"B": 1}}, "group a/A has the tier A.*Add A"),
    ],
)
def test_an_impossible_plan_is_an_error(options, expected):
    """The message has the fix."""
    with pytest.raises(UserError, match=expected):
        plan([group("a/A", 6400, 100)], mix_options(**options))


def test_documents_without_a_tier_need_a_default():
    """Where the column of the tier has no value, the group has no tier that could be added to the multipliers."""
    expected = r"group a has no tier, but the phase main has a multiplier for each tier \(B\)\. .*default: C"
    with pytest.raises(UserError, match=expected):
        plan([group("a", 6400, 100)], mix_options(tiers={"B": 1}))


def test_a_mixture_without_groups_is_an_error():
    """A corpus that lost every document has no mixture."""
    with pytest.raises(UserError, match="have no samples"):
        plan([], mix_options())


def test_huge_numbers_stay_exact():
    """10 trillion tokens of a thousand groups: the sum is exact to the sample, and shares to a billionth."""
    draw = random.Random(7)
    groups = [
        group(f"s{at}/{TIERS[at % 3]}", draw.randrange(10**9, 2 * 10**10), None, DOMAINS[at % 3]) for at in range(1000)
    ]
    domains = {"web": 0.6, "code": 0.3, "books": 0.1}
    (phase,) = plan(groups, mix_options(domains=domains, tokens="10T", max_epochs=5))
    drawn = tokens_by(groups, phase.weights, lambda one: one.domain)
    for domain, ratio in domains.items():
        assert abs(drawn[domain] / 10**13 - Fraction(str(ratio))) < Fraction(1, 10**8)
