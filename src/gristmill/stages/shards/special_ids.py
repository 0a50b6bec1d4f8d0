"""The ids of the end-of-document and padding tokens, by the names in a recipe or by the usual names."""

from typing import Protocol

from gristmill.errors import UserError


class HasSpecials(Protocol):
    """The part of a tokenizer that is needed here."""

    @property
    def specials(self) -> dict[str, int]: ...


END_OF_DOCUMENT = ("<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>")
"""Tried in this order. `<|im_end|>` is left out: it ends a turn of a conversation, and a document may have many."""
PADDING = ("<|pad|>", "<pad>", "[PAD]", "<|padding|>", "<|finetune_right_pad_id|>")

_SHOWN = 40


def special_ids(tokenizer: HasSpecials, end_of_document: str | None, padding: str | None) -> tuple[int, int]:
    """The ids of the token after each document and of the token that pads a sample.

    If a tokenizer has no usual padding token, the end-of-document token is used. Readers know the padding by its
    position and compute no loss there.
    """
    specials = tokenizer.specials
    if end_of_document is None:
        end_of_document = next((name for name in END_OF_DOCUMENT if name in specials), None)
        if end_of_document is None:
            raise UserError(
                f"the tokenizer has none of the usual end-of-document tokens ({', '.join(END_OF_DOCUMENT)}), so "
                "documents in the same sample could not be separated. "
                f"Set shards.end_of_document to one of its special tokens: {_listed(specials)}."
            )
    elif end_of_document not in specials:
        raise _unknown("end_of_document", end_of_document, specials, "so documents would have no end")
    if padding is None:
        padding = next((name for name in PADDING if name in specials), end_of_document)
    elif padding not in specials:
        raise _unknown("padding", padding, specials, "so samples could not be padded")
    return specials[end_of_document], specials[padding]


def _unknown(field: str, name: str, specials: dict[str, int], consequence: str) -> UserError:
    return UserError(
        f"shards.{field}: {name!r} is not a special token of the tokenizer, {consequence}. "
        f"Special tokens: {_listed(specials)}."
    )


def _listed(specials: dict[str, int]) -> str:
    more = f", and {len(specials) - _SHOWN} more" if len(specials) > _SHOWN else ""
    return (", ".join(list(specials)[:_SHOWN]) or "none") + more
