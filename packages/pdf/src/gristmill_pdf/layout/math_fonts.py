"""The signs of glyphs whose font does not tell them. pdfium returns their code, and the fonts of TeX have fixed codes.

The codes are those of the encodings OT1 and T1 (text), OML (letters), OMS (signs), OMX (large signs), of the two fonts
of signs of the American Mathematical Society, and of the bullets in Wingdings, which many files call letters.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gristmill_pdf.kernels.glyphs import CODE, FLAGS, FONT, HYPHEN, MAP_ERROR
from gristmill_pdf.kernels.segments import FIRST_PIECE, FONT_MATH

Array = np.ndarray[Any, Any]

_LEFT_OUT = chr(FIRST_PIECE)
"""Signs that are no character."""


def _table(*parts: tuple[int, str]) -> Array:
    """What the codes of a font are, from the first codes of some rows of signs; a space keeps the code."""
    table = np.arange(256, dtype=np.int32)
    for first, signs in parts:
        for code, sign in enumerate(signs, first):
            table[code] = code if sign == " " else ord(sign)
    return table


_BRACKETS = "()[]⌊⌋⌈⌉{}⟨⟩"
_TEXT = _table(
    (11, "ﬀﬁﬂﬃﬄ“”"), (21, "–—"), (27, "ﬀﬁﬂﬃﬄ"), (127, "-"), (136, "•"),
)  # fmt: skip
_DINGBATS = re.compile(r"(?:itc)?(?:zapf)?dingbats|wingdings(?!-?[23])")
_BULLETS = _table((108, "●❍■❏ ❑❒  ◆❖"), (167, "▪◻"), (216, "➢"), (224, "→"), (232, "➔"), (251, "✗✓☒☑"))
_PRIVATE = range(0xF000, 0xF100)
"""The codes of such fonts where a file gives them as private characters."""
_SMALL = range(0xF721, 0xF800)
"""Old-style digits and small capitals as Adobe numbers them: their plain characters are 0xF700 less."""
_UNKNOWN = _table((0, _LEFT_OUT * 32))
_LAYOUTS = (
    (
        re.compile(r"(?:cm|lm|mt|n?[tp]x|r[tp]x)b?mi|cmmib|lmmathit|eur[mb]|zplmr7m|fourier-math-letters"),
        _table(
            (0, "ΓΔΘΛΞΠΣΥΦΨΩαβγδϵζηθικλμνξπρστυϕχψωεϑϖϱςφ"),
            (40, "↼↽⇀⇁"), (58, ".,</>⋆∂"), (91, "♭♮♯⌣⌢ℓ"), (123, "ıȷ℘" + _LEFT_OUT * 2),
        ),
    ),
    (
        re.compile(r"(?:cm|lm|mt|n?[tp]x|r[tp]x)b?sy(?![abc])|lmmathsy|zplmr7y|fourier-math-symbols"),
        _table(
            (0, "−·×∗÷⋄±∓⊕⊖⊗⊘⊙◯∘•≍≡⊆⊇≤≥⪯⪰∼≈⊂⊃≪≫≺≻←→↑↓↔↗↘≃⇐⇒⇑⇓⇔↖↙∝′∞∈∋△▽"),
            (55, _LEFT_OUT + "∀∃¬∅ℜℑ⊤⊥ℵ"), (91, "∪∩⊎∧∨⊢⊣⌊⌋⌈⌉{}⟨⟩|∥↕⇕\\≀√⨿∇∫⊔⊓⊑⊒§†‡¶♣♢♡♠"),
        ),
    ),
    (
        re.compile(r"(?:cm|lm|mt|n?[tp]x)ex(?!a)|mathextension|zplmr7v|fourier-math-extension"),
        _table(
            (0, _BRACKETS + "|∥/\\()" + _BRACKETS + "/\\" + _BRACKETS + "/\\/\\"),
            (48, _LEFT_OUT * 20), (68, "⟨⟩⊔⊔∮∮⊙⊙⊕⊕⊗⊗∑∏∫⋃⋂⊎⋀⋁∑∏∫⋃⋂⊎⋀⋁∐∐"),
            (98, _LEFT_OUT * 6), (104, "[]⌊⌋⌈⌉{}√√√√√" + _LEFT_OUT * 11),
        ),
    ),
    (
        re.compile(r"msam|[tp]xsya"),
        _table(
            (0, "⊡⊞⊠□■∙◊⧫↻↺⇌⇋⊟⊩⊪⊨↠↞⇇⇉⇈⇊↾⇂↿⇃↣↢⇆⇄↰↱⇝↭↫↬≗≿≳⪆⊸∴∵≑≜≾≲⪅⪕⪖⋞⋟≼≦⩽≶‵"),
            (58, "≓≒≽≧⩾≷⊏⊐⊳⊲⊵⊴★≬▼▶◀"), (77, "▵▲▿≖⋚⋛⪋⪌¥⇛⇚✓⊻⊼⩞∠∡∢∝⌣⌢⋐⋑⋓⋒⋏⋎⋋⋌⫅⫆≏≎⋘⋙⌜⌝®"),
            (116, "⋔∔∽⋍⌞⌟✠∁⊺⊚⊛⊝"),
        ),
    ),
    (
        re.compile(r"msbm|[tp]xsyb"),
        _table(
            (0, "≨≩≰≱≮≯⊀⊁≨≩≰≱⪇⪈⋠⋡⋨⋩⋦⋧≰≱⪵⪶⪹⪺⪉⪊≁≇╱╲⊊⊋⊈⊉⫋⫌⫋⫌⊊⊋⊈⊉∦∤∤∦⊬⊮⊭⊯⋭⋬⋪⋫↚↛⇍⇏⇎↮⋇∅∄"),
            (96, "Ⅎ⅁"), (102, "℧ð≂ℶℷℸ⋖⋗⋉⋊∣∥∖∼≈≊⪸⪷↶↷ϝϰ𝕜ℏℏ϶"),
        ),
    ),
)  # fmt: skip


def layout_of(name: str) -> Array | None:
    """The table of a font for formulas, by its name."""
    return next((table for pattern, table in _LAYOUTS if pattern.match(name)), None)


def set_signs(glyphs: Array, names: Sequence[str], kinds: Array) -> None:
    """Replaces the codes of glyphs whose font does not tell the character by what they are in the fonts of TeX.

    The ligatures of text are in no font for formulas.
    """
    is_small = (glyphs[:, CODE] >= _SMALL.start) & (glyphs[:, CODE] < _SMALL.stop)
    glyphs[is_small, CODE] -= 0xF700
    for font in [at for at, name in enumerate(names) if _DINGBATS.match(name)]:
        rows = np.flatnonzero(glyphs[:, FONT] == font)
        codes = glyphs[rows, CODE]
        codes = np.where((codes >= _PRIVATE.start) & (codes < _PRIVATE.stop), codes - _PRIVATE.start, codes)
        glyphs[rows, CODE] = np.where(codes < 256, _BULLETS[np.minimum(codes, 255)], codes)
    unknown = np.flatnonzero((glyphs[:, FLAGS] & (MAP_ERROR | HYPHEN)) == MAP_ERROR)
    for font in np.unique(glyphs[unknown, FONT]).tolist():
        is_math = bool(kinds[font] & FONT_MATH)
        table = layout_of(names[font]) if is_math else _TEXT
        table = _UNKNOWN if table is None else table
        rows = unknown[glyphs[unknown, FONT] == font]
        codes = glyphs[rows, CODE]
        codes[codes == 0xFFFD] = 0 if is_math else 0xFFFD
        glyphs[rows, CODE] = np.where(codes < 256, table[np.minimum(codes, 255)], codes)
