"""Builds `common_words.txt`, the ordinary English words of `faithful`, from texts that no result is reported on.

    python -m bench._common_words DATA > src/gristmill/stages/measure/common_words.txt

A word is ordinary if at least LEAST_TEXTS texts of two collections or sites have it without a capital, and at least
half of its occurrences inside a sentence have none. Only texts of the half that thresholds are chosen on are
read (`bench.faithful.is_reported`), and only English ones.
"""

import re
import sys
import textwrap
from collections import Counter, defaultdict
from pathlib import Path

from bench.faithful import is_reported, texts_by_site

LEAST_TEXTS = 3
LEAST_LOWER = 0.5
_INSIDE = re.compile(r"(?<=[a-z,] )[A-Za-z][a-z]+\b(?!['’.]\w)")
_ENGLISH = {"the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "with", "was", "be", "by", "on", "not"}
_LEAST_ENGLISH = 0.15
TITLE = "# English words that are mostly written without a capital in public-domain books, free manuals and web pages."


def common_words(data: Path) -> list[str]:
    """The ordinary words of the half of the texts that is not reported on."""
    lower: Counter[str] = Counter()
    upper: Counter[str] = Counter()
    texts: Counter[str] = Counter()
    sites: dict[str, set[str]] = defaultdict(set)
    for text, site in texts_by_site(data, ("text", "text_large", "gold", "quality")):
        if is_reported(site):
            continue
        found = _INSIDE.findall(text)
        if sum(word in _ENGLISH for word in found) < _LEAST_ENGLISH * len(found):
            continue
        small = [word for word in found if word.islower()]
        lower.update(small)
        upper.update(word.lower() for word in found if not word.islower())
        for word in set(small):
            texts[word] += 1
            sites[word].add(site.split()[0])
    return sorted(
        word
        for word, count in lower.items()
        if texts[word] >= LEAST_TEXTS and len(sites[word]) > 1 and count >= LEAST_LOWER * (count + upper[word])
    )


if __name__ == "__main__":
    words = common_words(Path(sys.argv[1]))
    print(TITLE)
    print("\n".join(textwrap.wrap(" ".join(words), 119)))
