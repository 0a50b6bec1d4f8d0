"""A small, original eval suite for decontamination to find: word problems, definitions, and short questions.

Short items have fewer words than a 13-gram, so an index of 13-grams alone cannot find them.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random


@dataclass(frozen=True, slots=True)
class Item:
    id: str
    question: str
    answer: str


_NAMES = ["Amina", "Bartek", "Chiara", "Dmitri", "Esra", "Farid", "Greta", "Hiroshi", "Ines", "Jonas", "Katya", "Leon"]
_GOODS = [
    "lemons",
    "bricks",
    "candles",
    "notebooks",
    "seedlings",
    "lanterns",
    "ribbons",
    "buttons",
    "kettles",
    "marbles",
]

# {a} and {b} are small numbers, {c} a larger one; the expression next to each gives the answer.
_PROBLEMS: tuple[tuple[str, Callable[[int, int, int], int]], ...] = (
    (
        "{who} packs {a} crates with {b} {goods} each and then finds {c} more {goods} under the counter of the shop. "
        "How many {goods} does {who} have in all once everything has been counted twice?",
        lambda a, b, c: a * b + c,
    ),
    (
        "A ferry carries {c} passengers out to the island in the morning. At noon {a} of them come back, and on the "
        "evening trip another {b} return to the harbour. How many people stay on the island that night?",
        lambda a, b, c: c - a - b,
    ),
    (
        "Every weekday {who} walks {a} kilometres to the mill and takes a shorter path of {b} kilometres home again. "
        "After {c} weekdays of this routine, how many kilometres has {who} walked altogether?",
        lambda a, b, c: (a + b) * c,
    ),
    (
        "An orchard has {a} rows with {c} pear trees in every row, but a storm in late autumn fells {b} of the trees. "
        "{who} replants none of them before winter. How many pear trees are still standing in spring?",
        lambda a, b, c: a * c - b,
    ),
    (
        "{who} reads {a} pages before breakfast and {b} pages after supper on each day of a holiday that lasts {c} "
        "days. How many pages of the long novel has {who} finished when the holiday is over?",
        lambda a, b, c: (a + b) * c,
    ),
    (
        "A baker sells {c} loaves on Saturday, which is {a} fewer than on Friday and {b} more than on Sunday. How many "
        "loaves leave the bakery over the three days when no loaf is given away?",
        lambda a, b, c: c + (c + a) + (c - b),
    ),
    (
        "The choir needs {c} song sheets. {who} prints {a} sheets at home and a neighbour brings {b} sheets that were "
        "left from last year. How many sheets must still be copied before the rehearsal begins?",
        lambda a, b, c: c - a - b,
    ),
    (
        "A water tank holds {c} litres when {who} opens both taps. One tap lets out {a} litres a minute and the other "
        "{b} litres a minute. How many litres are left in the tank after exactly two minutes?",
        lambda a, b, c: c - 2 * (a + b),
    ),
    (
        "{who} trades {a} {goods} for every {b} coins at the market and walks away at dusk having handed over {a} "
        "times {c} {goods}. How many coins does {who} carry home if none are spent on the way?",
        lambda a, b, c: b * c,
    ),
    (
        "Twin sisters save money for a tent that costs {c} crowns. The elder puts in {a} crowns, the younger puts in "
        "{b} crowns, and their uncle promises the rest. How many crowns does the uncle have to pay?",
        lambda a, b, c: c - a - b,
    ),
)

_DEFINITIONS = """
lichen: a partnership of a fungus and an alga that grows as a crust or tuft on bark and bare rock
estuary: the wide lower reach of a river where its fresh water meets the tide and turns brackish
ballast: heavy material carried low in the hull of a ship so that it stays upright when empty of cargo
cadence: the pair of closing chords that tells a listener that a phrase of music has come to rest
solstice: either of the two moments in a year when the noon sun stands farthest from the celestial equator
keystone: the wedge at the crown of an arch that is set last and locks all the other stones in place
ferment: to let yeast or bacteria turn the sugars of a food into acid, gas or alcohol without any air
meander: one of the loops that a slow river cuts into soft ground as it wears one bank and builds the other
palimpsest: a sheet of parchment that was scraped clean and written on again while traces of the old ink remain
alloy: a metal made by melting two or more elements together so that it is harder or rusts less than any of them
quorum: the least number of members who must be in the room before a vote of the assembly is binding
isthmus: a narrow neck of land with sea on both sides that joins two larger bodies of land
sextant: a handheld instrument that measures the angle between a star and the horizon to find a ship's latitude
tariff: a charge that a government lays on goods when they cross its border into the country
gosling: the young of a goose in the weeks before its down gives way to proper feathers for flight
parity: an extra bit chosen so that the number of ones in a word is even and a single flipped bit shows
glacier: a body of ice that is thick enough to creep downhill under its own weight from one year to the next
plinth: the square block on which a column or a statue stands so that its foot is clear of the floor
inertia: the tendency of a body to keep its speed and direction for as long as no force acts upon it
marzipan: a stiff sweet paste of ground almonds and sugar that confectioners colour and press into little fruits
aqueduct: a channel raised on arches or cut through hills that leads water by gravity from springs to a town
mutex: a lock that lets one thread at a time into the part of a program that changes shared data
tundra: a cold treeless plain whose deeper soil stays frozen through the short and marshy summer
lexicon: the whole stock of words that a language or a single speaker of it has ready for use
pollen: the fine dust from the stamens of a flower that bees and wind carry to the stigma of another
""".strip().splitlines()

_SHORT = """
Which gas do green plants take in by daylight?: carbon dioxide
How many strings does a standard violin have?: four
What do we call the shadowed edge of the moon?: the terminator
Which planet of ours spins on its side?: Uranus
What is the square root of one hundred sixty-nine?: thirteen
Which tree gives us the acorn in autumn?: the oak
What metal is liquid in an ordinary room?: mercury
How many faces has a regular dodecahedron?: twelve
""".strip().splitlines()


def suite(rng: Random) -> dict[str, list[Item]]:
    """The items by file name."""
    problems = []
    for number in range(4 * len(_PROBLEMS)):
        template, answer = _PROBLEMS[number % len(_PROBLEMS)]
        a, b, c = rng.randint(3, 19), rng.randint(3, 19), rng.randint(80, 400)
        text = template.format(a=a, b=b, c=c, who=rng.choice(_NAMES), goods=rng.choice(_GOODS))
        problems.append(Item(f"arithmetic-{number:02}", text, str(answer(a, b, c))))
    definitions = []
    for number, (term, words) in enumerate(line.split(": ", 1) for line in _DEFINITIONS):
        definitions.append(Item(f"definitions-{number:02}", f"Which word means {words}?", term))
    short = [line.split("?: ", 1) for line in _SHORT]
    shorts = [Item(f"short-{number:02}", f"{question}?", answer) for number, (question, answer) in enumerate(short)]
    return {"arithmetic": problems, "definitions": definitions, "short": shorts}


def write(folder: Path, items: dict[str, list[Item]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, found in items.items():
        lines = [json.dumps(asdict(item), ensure_ascii=False) + "\n" for item in found]
        (folder / f"{name}.jsonl").write_text("".join(lines), "utf-8")
    entries = [f"  {name}: {{files: {name}.jsonl, question: question, answer: answer, id: id}}\n" for name in items]
    (folder / "suite.yaml").write_text(f'suite: demo-evals\nversion: "1"\nbenchmarks:\n{"".join(entries)}', "utf-8")


def partly(item: Item) -> str:
    """The question without the last tenth of its words."""
    words = item.question.split()
    return " ".join(words[: len(words) - max(1, len(words) // 10)])


def edited(item: Item) -> str:
    """The question in other letter case and punctuation, with one of its last words replaced.

    One changed word near the end breaks two of the 13-grams of a 40-word question. A copyist might do this, and it
    still leaves a coverage above 0.8.
    """
    words = item.question.replace(",", " -").replace(".", " ;").split()
    words[-2] = "afterwards"
    return " ".join(words).upper()
