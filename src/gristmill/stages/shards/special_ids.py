"""Which ids end a document and fill up a sample: by the names that a recipe gives, or by the usual ones."""

from typing import Protocol

from gristmill.errors import UserError


class HasSpecials(Protocol):
    """What is asked of a tokenizer."""

    @property
    def specials(self) -> dict[str, int]: ...


END_OF_DOCUMENT = ("<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>")
"""Tried in this order. `<|im_end|>` is none: it ends a turn of a conversation, and a document may hold many."""
PADDING = ("<|pad|>", "<pad>", "[PAD]", "<|padding|>", "<|finetune_right_pad_id|>")

_SHOWN = 40


def special_ids(tokenizer: HasSpecials, end_of_document: str | None, padding: str | None) -> tuple[int, int]:
    """Ids of the token behind each document and of the token that fills up a sample.

    A tokenizer without any usual token for padding pads with the end of a document; readers know the padding by
    its place, and no loss is taken there.
    """
    specials = tokenizer.specials
    if end_of_document is None:
        end_of_document = next((name for name in END_OF_DOCUMENT if name in specials), None)
        if end_of_document is None:
            raise UserError(
                f"the tokenizer has none of the usual tokens for the end of a document ({', '.join(END_OF_DOCUMENT)}), "
                "so documents that lie side by side in a sample could not be told apart. "
                f"Set shards.end_of_document to one of its special tokens: {_listed(specials)}."
            )
    elif end_of_document not in specials:
        raise _unknown("end_of_document", end_of_document, specials, "so no document could be ended")
    if padding is None:
        padding = next((name for name in PADDING if name in specials), end_of_document)
    elif padding not in specials:
        raise _unknown("padding", padding, specials, "so no sample could be filled up")
    return specials[end_of_document], specials[padding]


def _unknown(field: str, name: str, specials: dict[str, int], consequence: str) -> UserError:
    return UserError(
        f"shards.{field}: {name!r} is not a special token of the tokenizer, {consequence}. "
        f"Special tokens: {_listed(specials)}."
    )


def _listed(specials: dict[str, int]) -> str:
    more = f", and {len(specials) - _SHOWN} more" if len(specials) > _SHOWN else ""
    return (", ".join(list(specials)[:_SHOWN]) or "none") + more
