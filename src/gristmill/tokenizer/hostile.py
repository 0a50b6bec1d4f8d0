"""Texts that break tokenizers, by difficulty. Each must decode to exactly the same text."""

import random

_WORDS = (
    "the",
    "Straße",
    "naïve",
    "データ",
    "数据",
    "مرحبا",
    "שלום",
    "привет",
    "ภาษา",
    "हिन्दी",
    "x_1",
    "0x7F",
    "½",
    "—",
    "…",
    "👍🏽",
    "e\u0301",
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "'s",
    "12345",
)


def _mixtures(count: int) -> str:
    """Words of many scripts, blanks, numbers and marks, in a fixed random order."""
    draw = random.Random(5)
    return "".join(draw.choice(_WORDS) for _ in range(count))


HOSTILE = {
    "indentation": "def f(x):\n    if x:\n        return [\n            x,\n        ]\n  # two\n   # three\n"
    + " " * 41
    + "x",
    "tabs": "\tone\n\t\ttwo\n\t \tmixed \t \n\t\n\t\t\t\t\t\t\tdeep\tcolumns\there\t",
    "carriage_returns": "line\r\nline\r\n\r\n  indented\r\n\tend\r\n",
    "newlines": "a\nb\n\nc\rd\r\re\n\rf\x0bg\x0ch\x1ci\x1dj\x1ek\x85l\u2028m\u2029n \n \n  \n",
    "trailing_space": "words   \n  \n\n   ",
    "leading_space": "   words",
    "latex": "$\\int_{-\\infty}^{\\infty} e^{-x^2}\\,dx$ \\[ \\begin{matrix} a_{11} & \\dots \\\\ \\end{matrix} \\]",
    "cjk": "数据清洗之后,模型学得更好。データの前処理は重要です。데이터를 정제。𠮷野家 㐂 ㍿ ﾊﾝｶｸ 全角ＡＢＣ１２３",
    "emoji_with_joiners": "👩‍👩‍👧‍👦 👨🏿‍🚀 🏳️‍🌈 🇩🇪🇫🇷 1️⃣ ❤️‍🔥 🤷🏽‍♀️ ☺︎ ☺️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "combining_marks": "e\u0301 o\u0308\u0304 n\u0303 a\u0323\u0302 Z\u0351\u036b\u0343\u036a\u0302 क्षि ກໍ່ ក្រុម 각",
    "lone_combining_marks": "\u0301\u0308 \u0301a\u200b\u0323 \u20dd \u094d\u0302\n\u0301",
    "right_to_left": "مرحبا بالعالم، كيف الحال؟ ١٢٣٤٥ שלום עוֹלָם (abc) \u202bאבג\u202c \u2067x\u2069 \u202etxet\u202c",
    "zero_width": "a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg\u180eh\u034fi\u061cj \u200b \u200b",
    "spaces": "a\u00a0b\u2000c\u2003d\u2009e\u202ff\u205fg\u3000h \u00a0 \u3000\u3000i",
    "urls": "https://user:pass@example.org:8443/a%20b/?x=1&y[]=%E2#top ftp://[2001:db8::1]/ mailto:a.b+c@example.org",
    "sql": "SELECT t.\"Ünï\", COUNT(*) FROM [dbo].[t] WHERE n >= 10 AND s <> 'it''s' -- note\n/* x */ GROUP BY 1;",
    "code": 'if (!a->b[i++] || c<<=2) {return f<T&&>("\\n\\x00\\\\");} @x.setter #!/bin/sh ${HOME} `ls` 0b10_10 1e-9',
    "markup": '<p class="a">&nbsp;&#x1F600;</p><!-- -->\n| a | b |\n|---|:-:|\n**b** _i_ ~~s~~ [l](u) ```py\n```',
    "binary": bytes(range(256)).decode("latin-1") + random.Random(1).randbytes(2000).decode("latin-1"),
    "nul": "\x00a\x00\x00b\n\x00",
    "controls": "".join(map(chr, range(32))) + "\x7f\x1b[31mred\x1b[0m\b\b\a",
    "long_runs": " " * 700
    + "\n" * 300
    + "a" * 3000
    + "=" * 900
    + "ab" * 900
    + "あ" * 500
    + "9" * 400
    + "\t" * 200
    + "🙂" * 99,
    "digits": "0 12 123 1234 1234567890 3.14159265 1,000,000 2026-11-15 +49(0)30 ½²Ⅷ ١٢٣٤٥٦ ௧௨௩௪ １２３４５ 一二三四",
    "contractions": "it's IT'S we'll WE'LL don't I'd they've y'all'd've 'tis o’clock 'ſ rock'n'roll ''s",
    "case": "camelCase PascalCase SCREAMING_SNAKE kebab-case HTTPServer2 iOS ǅ ß ẞ İ ı ΣΑΣ σας ﬁ",
    "noncharacters": "\ufffd \ufffe \uffff \U0001fffe \ue000\uf8ff \U000f0000 \U0010ffff \U000e0001",
    "all_planes": "".join(chr(point) for point in range(1, 0x110000, 61) if not 0xD800 <= point <= 0xDFFF),
    "like_special_tokens": "<|endoftext|> <|im_start|> <s></s> [INST] <think> <|x <|end|>> <unk>[PAD] <|reserved_0|>",
    "mixtures": _mixtures(2000),
    "empty": "",
    "one_space": " ",
}
"""Name of the difficulty -> a text that has it."""
