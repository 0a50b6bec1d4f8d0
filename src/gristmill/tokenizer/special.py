"""The special tokens of our own tokenizers: 256 ids, 30 of them with a name, the rest reserved.

They come after all others, as in Llama 3 and cl100k: the ids below are then the dense ranks that readers of rank files
expect, and a smaller vocabulary loses merges, not special tokens. A reserved token can get a meaning after training
without a change to the size of the embedding.
"""

SLOTS = 256

BEGIN_OF_TEXT, END_OF_TEXT, PAD = "<|begin_of_text|>", "<|end_of_text|>", "<|pad|>"

NAMED = (
    # document boundaries
    BEGIN_OF_TEXT,
    END_OF_TEXT,
    PAD,
    "<|end_of_section|>",
    # roles and turns
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    "<|begin_of_turn|>",
    "<|end_of_turn|>",
    # tools
    "<|tool_call|>",
    "<|end_tool_call|>",
    "<|tool_result|>",
    "<|end_tool_result|>",
    # reasoning
    "<|think|>",
    "<|end_think|>",
    # code: fill in the middle (Bavarian et al. 2022), files of a repository
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repository|>",
    "<|file|>",
    # language tags
    "<|lang_en|>",
    "<|lang_de|>",
    "<|lang_es|>",
    "<|lang_fr|>",
    "<|lang_ja|>",
    "<|lang_ru|>",
    "<|lang_zh|>",
    "<|lang_other|>",
)

SPECIAL_TOKENS = NAMED + tuple(f"<|reserved_{number}|>" for number in range(SLOTS - len(NAMED)))
