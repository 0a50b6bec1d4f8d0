"""Interpolated modified Kneser-Ney by the formulas: dictionaries of tuples, and nothing sorted."""

import math
from collections import Counter, defaultdict

UNKNOWN, BEGIN, END = "<unk>", "<s>", "</s>"


def probabilities(sentences, order, least, vocab):
    """The probability of each n-gram, and the mass that each context leaves to shorter n-grams."""
    words = Counter(word for sentence in sentences for word in sentence)
    known = {word for word, count in words.items() if count >= least[0]}
    if len(known) > vocab:
        raise ValueError("the oracle takes no choice among equals")
    texts = [(BEGIN, *(word if word in known else UNKNOWN for word in one), END) for one in sentences]
    occurrences = {n: Counter() for n in range(1, order + 1)}
    for text in texts:
        for end in range(1, len(text)):
            for n in range(1, min(order, end + 1) + 1):
                occurrences[n][text[end - n + 1 : end + 1]] += 1
    counts = {}
    for n in range(1, order + 1):
        before = defaultdict(set)
        for gram in occurrences.get(n + 1, ()):
            before[gram[1:]].add(gram[0])
        counts[n] = {
            gram: count if n == order or gram[0] == BEGIN else len(before[gram])
            for gram, count in occurrences[n].items()
        }
    size = len(known) + 2
    found, left = {}, {}
    for n in range(1, order + 1):
        taken = discounts(counts[n], n)
        groups = defaultdict(list)
        for gram, count in counts[n].items():
            groups[gram[:-1]].append((gram, count))
        for context, grams in groups.items():
            total = sum(count for _, count in grams)
            kept = [
                one for one in grams if UNKNOWN not in one[0] and (n == 1 or occurrences[n][one[0]] >= least[n - 1])
            ]
            rest = sum(taken[min(count, 3)] for _, count in kept)
            rest += total - sum(count for _, count in kept)
            if kept:
                left[context] = rest / total
            for gram, count in kept:
                lower = found[gram[1:]] if n > 1 else 1 / size
                found[gram] = (count - taken[min(count, 3)]) / total + rest / total * lower
    found[UNKNOWN,] = left[()] / size
    return found, left, known


def discounts(counts, n):
    have = Counter(count for gram, count in counts.items() if gram != (UNKNOWN,))
    fallback = {1: 0.5, 2: 1.0, 3: 1.5}
    if not all(have[k] for k in range(1, 5)):
        return fallback
    share = have[1] / (have[1] + 2 * have[2])
    found = {k: k - (k + 1) * share * have[k + 1] / have[k] for k in range(1, 4)}
    return found if all(0 <= value <= k for k, value in found.items()) else fallback


def log10_of(word, context, found, left, order):
    """By backing off, as in an ARPA file."""
    context = context[-(order - 1) :] if order > 1 else ()
    backed = 0.0
    while (*context, word) not in found:
        backed += math.log10(left.get(context, 1.0)) if context else 0.0
        context = context[1:]
    return backed + math.log10(found[*context, word])
