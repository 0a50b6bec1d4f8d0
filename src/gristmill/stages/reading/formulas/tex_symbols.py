"""Converts characters to TeX: operators, letters of every style, words, and how pieces are joined.

The result is always balanced: each open brace is closed, and a brace of the text is escaped. A character without a
command stays as it is, which LaTeX with unicode-math can read.
"""

import re
import unicodedata
from collections.abc import Iterable

from gristmill.kernels.text.unicode_data import known

_LIMITS = "det gcd inf lim liminf limsup max min Pr sup"
_NAMES = "arccos arcsin arctan arg cos cosh cot coth csc deg dim exp hom ker lg ln log sec sin sinh tan tanh"
FUNCTIONS = frozenset(f"{_LIMITS} {_NAMES}".split())
WITH_LIMITS = frozenset(_LIMITS.split())
"""Limits under these functions belong to them, as under a sum."""
BIG = frozenset("∑∏∐⋃⋂⨆⨅⨄⋁⋀⨁⨂⨀∫∬∭⨌∮∯∰")

OPEN = frozenset("([{⟨〈⌊⌈⟦⟮")
CLOSE = frozenset(")]}⟩〉⌋⌉⟧⟯")
BARS = {"|": "|", "∣": "|", "‖": "‖", "∥": "‖"}
"""Fences that look the same on both sides. Two of them are relations, unless an element declares a fence."""
PRIMES = {"'": 1, "′": 1, "″": 2, "‴": 3, "⁗": 4, "’": 1}
ARROWS = {
    **dict.fromkeys("→⟶", "\\xrightarrow"),
    **dict.fromkeys("←⟵", "\\xleftarrow"),
    **dict.fromkeys("⇒⟹", "\\xRightarrow"),
    **dict.fromkeys("⇐⟸", "\\xLeftarrow"),
    "↔": "\\xleftrightarrow",
    "⇔": "\\xLeftrightarrow",
    "↦": "\\xmapsto",
    "⇌": "\\xrightleftharpoons",
}
"""Arrows that grow with the text above them."""

LINES = frozenset("‾̅-−–—―_")
"""Lines over a letter that grow with it; one that must not grow is a bar."""
OVER = {
    **dict.fromkeys("^ˆ̂", ("hat", "widehat")),
    **dict.fromkeys("~˜̃∼", ("tilde", "widetilde")),
    **dict.fromkeys("¯ˉ̄", ("bar", "overline")),
    **dict.fromkeys(LINES, ("overline", "overline")),
    **dict.fromkeys("→⃗⟶", ("vec", "overrightarrow")),
    **dict.fromkeys("←⃖", ("overleftarrow", "overleftarrow")),
    **dict.fromkeys("↔⃡", ("overleftrightarrow", "overleftrightarrow")),
    **dict.fromkeys(".˙̇", ("dot", "dot")),
    **dict.fromkeys("¨̈", ("ddot", "ddot")),
    **dict.fromkeys("ˇ̌", ("check", "check")),
    **dict.fromkeys("˘̆", ("breve", "breve")),
    **dict.fromkeys("´ˊ́", ("acute", "acute")),
    **dict.fromkeys("`ˋ̀", ("grave", "grave")),
    **dict.fromkeys("˚̊", ("mathring", "mathring")),
    "..": ("ddot", "ddot"),
    "...": ("dddot", "dddot"),
    "⃛": ("dddot", "dddot"),
    "⏞": ("overbrace", "overbrace"),
    "︷": ("overbrace", "overbrace"),
}
"""The command of an accent over one letter, and over several."""
UNDER = {
    **dict.fromkeys("_¯‾̲-−–—―", "underline"),
    **dict.fromkeys("⏟︸", "underbrace"),
    **dict.fromkeys("→⃗⟶", "underrightarrow"),
    **dict.fromkeys("←⃖", "underleftarrow"),
}

_COMMANDS = """
α alpha β beta γ gamma δ delta ϵ epsilon ε varepsilon ζ zeta η eta θ theta ϑ vartheta ι iota κ kappa ϰ varkappa λ lambda
μ mu µ mu ν nu ξ xi π pi ϖ varpi ρ rho ϱ varrho σ sigma ς varsigma τ tau υ upsilon ϕ phi φ varphi χ chi ψ psi ω omega
Γ Gamma Δ Delta ∆ Delta Θ Theta ϴ Theta Λ Lambda Ξ Xi Π Pi Σ Sigma Υ Upsilon ϒ Upsilon Φ Phi Ψ Psi Ω Omega Ω Omega
ϝ digamma ℵ aleph ℶ beth ℷ gimel ℸ daleth ℏ hbar ℓ ell ℘ wp ℜ Re ℑ Im ı imath ȷ jmath ð eth ℧ mho ∂ partial ∇ nabla
∞ infty ∅ emptyset ⌀ varnothing ∀ forall ∃ exists ∄ nexists ¬ neg ⊤ top ⊥ bot ⟂ perp ∠ angle ∡ measuredangle
∢ sphericalangle △ triangle ▵ triangle ▽ triangledown □ square ◻ square ■ blacksquare ∎ blacksquare ◊ lozenge ⋄ diamond
★ bigstar ♭ flat ♮ natural ♯ sharp ♠ spadesuit ♡ heartsuit ♢ diamondsuit ♣ clubsuit ✓ checkmark
∑ sum ∏ prod ∐ coprod ∫ int ∬ iint ∭ iiint ⨌ iiiint ∮ oint ∯ oiint ∰ oiiint ⋃ bigcup ⋂ bigcap ⨆ bigsqcup ⨄ biguplus
⋁ bigvee ⋀ bigwedge ⨁ bigoplus ⨂ bigotimes ⨀ bigodot
± pm ∓ mp × times ÷ div · cdot ⋅ cdot ∙ bullet • bullet ∘ circ ⋆ star ⊕ oplus ⊖ ominus ⊗ otimes ⊘ oslash ⊙ odot
∧ wedge ∨ vee ⊻ veebar ∩ cap ∪ cup ⊎ uplus ⊓ sqcap ⊔ sqcup ∖ setminus ⧵ setminus ≀ wr † dagger ‡ ddagger ⋉ ltimes
⋊ rtimes ⋈ bowtie ⊞ boxplus ⊟ boxminus ⊠ boxtimes ⊡ boxdot ∔ dotplus ⊛ circledast ⊚ circledcirc √ surd
≤ leq ≥ geq ⩽ leqslant ⩾ geqslant ≦ leqq ≧ geqq ≪ ll ≫ gg ⋘ lll ⋙ ggg ≠ neq ≡ equiv ≢ not\\equiv ∼ sim ≁ nsim ≃ simeq
≅ cong ≇ ncong ≈ approx ≉ not\\approx ≊ approxeq ≍ asymp ≐ doteq ≑ doteqdot ≜ triangleq ≗ circeq
∝ propto ≺ prec ≻ succ ≼ preceq ≽ succeq ⪯ preceq ⪰ succeq ≲ lesssim ≳ gtrsim ⪅ lessapprox ⪆ gtrapprox ≶ lessgtr
≷ gtrless ≮ nless ≯ ngtr ≰ nleq ≱ ngeq ⊂ subset ⊃ supset ⊆ subseteq ⊇ supseteq ⊄ not\\subset ⊅ not\\supset ⊈ nsubseteq
⊉ nsupseteq ⊊ subsetneq ⊋ supsetneq ⊏ sqsubset ⊐ sqsupset ⊑ sqsubseteq ⊒ sqsupseteq ∈ in ∊ in ∉ notin ∋ ni ∌ not\\ni
⊢ vdash ⊣ dashv ⊨ models ⊩ Vdash ⊬ nvdash ⊭ nvDash ∣ mid ∤ nmid ∥ parallel ∦ nparallel ⊲ triangleleft
⊳ triangleright ⊴ trianglelefteq ⊵ trianglerighteq ⌢ frown ⌣ smile ≬ between ⋔ pitchfork ∴ therefore ∵ because
→ to ← leftarrow ↔ leftrightarrow ⇒ Rightarrow ⇐ Leftarrow ⇔ Leftrightarrow ⟶ longrightarrow ⟵ longleftarrow
⟷ longleftrightarrow ⟹ Longrightarrow ⟸ Longleftarrow ⟺ iff ↦ mapsto ⟼ longmapsto ↑ uparrow ↓ downarrow ↕ updownarrow
⇑ Uparrow ⇓ Downarrow ⇕ Updownarrow ↗ nearrow ↘ searrow ↙ swarrow ↖ nwarrow ↪ hookrightarrow ↩ hookleftarrow
⇀ rightharpoonup ⇁ rightharpoondown ↼ leftharpoonup ↽ leftharpoondown ⇌ rightleftharpoons ⇋ leftrightharpoons
⇄ rightleftarrows ⇆ leftrightarrows ⇉ rightrightarrows ↠ twoheadrightarrow ↣ rightarrowtail ⇝ rightsquigarrow
↝ leadsto ↛ nrightarrow ↚ nleftarrow ⇏ nRightarrow ⇍ nLeftarrow ↾ upharpoonright ⊸ multimap ⟳ circlearrowright
… ldots ⋯ cdots ⋮ vdots ⋱ ddots ⟨ langle ⟩ rangle 〈 langle 〉 rangle ⌊ lfloor ⌋ rfloor ⌈ lceil ⌉ rceil ⟦ llbracket
⟧ rrbracket ⟮ lgroup ⟯ rgroup ≔ coloneqq ≕ eqqcolon ‖ | \\ backslash ~ sim { { } } # # $ $ % % & & _ _ § S ¶ P £ pounds
"""
_OTHER = """
− - – - — - ‐ - ‑ - ∗ * ＋ + ＝ = ∕ / ⁄ / ∶ : ꞉ : ˙ . ʹ ' ’ ' ′ ' ″ '' ‴ ''' ⁗ ''''
Α A Β B Ε E Ζ Z Η H Ι I Κ K Μ M Ν N Ο O Ρ P Τ T Χ X ο o ℎ h K K Å Å
° {}^{\\circ} ² {}^2 ³ {}^3 ¹ {}^1 ½ \\frac{1}{2} ¼ \\frac{1}{4} ¾ \\frac{3}{4} ^ \\text{\\textasciicircum}
⏟ \\underbrace{} ⏞ \\overbrace{}
"""
_SPACES = {
    " ": "\\ ",
    "\u00a0": "\\ ",
    "\u2002": "\\enspace",
    "\u2003": "\\quad",
    "\u2004": "\\;",
    "\u2005": "\\:",
    "\u205f": "\\:",
    "\u2006": "\\,",
    "\u2009": "\\,",
    "\u202f": "\\,",
}
_words, _others = _COMMANDS.split(), _OTHER.split()
_SYMBOLS = {
    **{char: "\\" + name for char, name in zip(_words[::2], _words[1::2], strict=True)},
    **dict(zip(_others[::2], _others[1::2], strict=True)),
    **_SPACES,
}
_OPERATORS = {
    "->": "\\to",
    "<-": "\\leftarrow",
    "=>": "\\Rightarrow",
    "<=>": "\\Leftrightarrow",
    "<=": "\\leq",
    ">=": "\\geq",
    "!=": "\\neq",
    "...": "\\ldots",
    "||": "\\|",
    "<<": "\\ll",
    ">>": "\\gg",
}
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u00ad\u200a-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
"""Controls, joiners, invisible operators (times, function application), variation selectors."""
_NEGATED = "\u0338\u20d2"

_BOLD = "\\boldsymbol"
VARIANTS = {
    "normal": ("\\mathrm",),
    "bold": ("\\mathbf",),
    "bold-italic": (_BOLD,),
    "double-struck": ("\\mathbb",),
    "script": ("\\mathcal",),
    "bold-script": (_BOLD, "\\mathcal"),
    "fraktur": ("\\mathfrak",),
    "bold-fraktur": (_BOLD, "\\mathfrak"),
    "sans-serif": ("\\mathsf",),
    "bold-sans-serif": (_BOLD, "\\mathsf"),
    "sans-serif-italic": ("\\mathsf",),
    "sans-serif-bold-italic": (_BOLD, "\\mathsf"),
    "monospace": ("\\mathtt",),
}
"""Values of `mathvariant`: commands, the outer one first. Letters are italic anyway."""


def _styled_letters() -> dict[str, tuple[str, str]]:
    """Letters and digits of the mathematical alphabets: the plain character and its style."""
    latin = "bold italic bold-italic script bold-script fraktur double-struck bold-fraktur sans-serif bold-sans-serif "
    latin += "sans-serif-italic sans-serif-bold-italic monospace"
    greek = "bold italic bold-italic bold-sans-serif sans-serif-bold-italic"
    digits = "bold double-struck sans-serif bold-sans-serif monospace"
    blocks = ((0x1D400, 52, latin), (0x1D6A8, 58, greek), (0x1D7CE, 10, digits))
    letters = {
        chr(first + size * place + at): style
        for first, size, block in blocks
        for place, style in enumerate(block.split())
        for at in range(size)
    }
    letters |= {**dict.fromkeys("ℂℍℕℙℚℝℤⅆⅅⅇⅈⅉℽℾℿ⅀", "double-struck"), **dict.fromkeys("ℬℰℱℋℐℒℳℛℯℊℴ", "script")}
    letters |= {**dict.fromkeys("ℭℌℨ", "fraktur"), "𝚤": "italic", "𝚥": "italic"}
    # The double-struck d, e, i, j mark a differential and constants by meaning, not by appearance.
    letters |= dict.fromkeys("ⅅⅆⅇⅈⅉ", "italic")
    plain = {char: (unicodedata.normalize("NFKC", char), style) for char, style in letters.items()}
    return {char: pair for char, pair in plain.items() if pair[0] != char}


_STYLED = _styled_letters()
_ENDS_IN_COMMAND = re.compile(r"\\[A-Za-z]+\Z")
_SINGLE = re.compile(r"\\(?:[A-Za-z]+(?:\{[^{}]*\})?|.)|[0-9.,]+")
_TEXT_ESCAPES = {
    **{ord(char): "\\" + char for char in "{}$%#&_"},
    ord("\\"): "\\textbackslash{}",
    ord("~"): "\\textasciitilde{}",
    ord("^"): "\\textasciicircum{}",
    **dict.fromkeys(map(ord, _SPACES), " "),
}


def is_single(piece: str) -> bool:
    """Whether a script that follows applies to the whole piece and is its only one."""
    return (len(piece) == 1 and piece != "'") or (len(piece) < 64 and bool(_SINGLE.fullmatch(piece)))


def join(pieces: Iterable[str], numbers: bool = True) -> str:
    """Joins pieces. A space separates a command from a letter and, with `numbers`, a number from a number before it,
    even if a comma is between them: `(0, 1)` is not a decimal fraction.
    """
    out: list[str] = []
    for piece in filter(None, pieces):
        before = out[-1] if out else ""
        if numbers and before == "," and len(out) > 1:
            before = out[-2]
        if piece[0] == "'" and not (is_single(before) or before.endswith(("'", ")", "]"))):
            out.append("{}")  # a prime is a superscript, and two superscripts are an error
        elif before and (
            (known(piece[0]).isalpha() and _ENDS_IN_COMMAND.search(before[-40:]))
            or (numbers and known(piece[0]).isdecimal() and known(before[-1]).isdecimal())
        ):
            out.append(" ")
        out.append(piece)
    return "".join(out)


def symbols(text: str) -> str:
    """Converts characters in mathematics one by one; a run of one style becomes one group."""
    pieces: list[str] = []
    run, run_style = "", ""
    text = _UNSEEN.sub("", text)
    for place, char in enumerate(text):
        letter, style = _STYLED.get(char, (char, ""))
        if run and style != run_style:
            pieces.append(styled(run, run_style))
            run = ""
        if style:
            run, run_style = run + letter, style
        elif char not in _NEGATED:
            tex = _SYMBOLS.get(char, char)
            if text[place + 1 : place + 2] in tuple(_NEGATED):
                tex = "\\neq" if tex == "=" else "\\not" + tex
            pieces.append(tex)
    if run:
        pieces.append(styled(run, run_style))
    return join(pieces, numbers=False)


def styled(text: str, variant: str) -> str:
    """Characters in the style of a `mathvariant`. Without a TeX alphabet for it, they are bold or plain."""
    tex, commands = symbols(text), VARIANTS.get(variant, ())
    if not (text.isascii() and text.isalnum()):
        commands = (_BOLD,) if tex and "bold" in variant else ()
    return "".join(command + "{" for command in commands) + tex + "}" * len(commands)


def has_symbols(text: str) -> bool:
    """Whether it contains letters with mathematical commands, so that it is hardly a word."""
    return any(char.isalpha() and (char in _SYMBOLS or char in _STYLED) for char in text)


def plain_italics(text: str) -> str:
    """The letters of several italic ones of the mathematical alphabets, which are one name; else nothing."""
    letters = [_STYLED.get(char, ("h" if char == "ℎ" else "", "italic")) for char in text]
    return (
        "".join(letter for letter, _ in letters)
        if len(text) > 1 and all(letter and style == "italic" for letter, style in letters)
        else ""
    )


def operator(text: str) -> str:
    """An operator, as the text of one element."""
    return _OPERATORS.get(text) or symbols(text)


def words(text: str, command: str = "\\text") -> str:
    """Text inside mathematics, with its spaces. Only blanks become one space; an empty text stays empty."""
    plain = re.sub(" +", " ", _UNSEEN.sub("", text).translate(_TEXT_ESCAPES))
    return f"{command}{{{plain}}}" if plain.strip() else "\\ " if plain else ""
