"""What commands and environments of LaTeX leave in the text."""

import re

MATH = frozenset(("equation", "align", "gather", "multline", "eqnarray", "displaymath", "math", "flalign", "alignat"))
ROWS = dict.fromkeys(("align", "eqnarray", "flalign"), "aligned") | dict.fromkeys(("gather", "multline"), "gathered")
"""{environment: the one that has its rows inside $$}"""
CUT = frozenset(
    (
        "thebibliography",
        "comment",
        "picture",
        "pspicture",
        "tikzpicture",
        "pgfpicture",
        "CCSXML",
        "filecontents",
        "rawhtml",
    )
)
STATEMENTS = {
    name: label
    for label, names in re.findall(
        r"(\w+)=(\S+)",
        "Theorem=theorem,thm Lemma=lemma,lem,lemm Proposition=proposition,prop Corollary=corollary,cor,coro "
        "Definition=definition,defn,def Remark=remark,rem,rmk Example=example,ex,exam Proof=proof Claim=claim "
        "Conjecture=conjecture,conj Exercise=exercise Problem=problem Situation=situation Question=question",
    )
    for name in names.split(",")
}
"""{environment: what a reader sees before its text}"""
TABLES = frozenset(("tabular", "tabularx", "tabulary", "tabu", "longtable", "array", "supertabular"))
_WIDE = frozenset(("tabular*", "tabularx", "tabulary", "wrapfigure", "wraptable", "list"))
_SIZED = frozenset(("minipage", "multicols", "column", "subfigure", "subtable", "adjustbox", "spacing"))
GROUPS = dict.fromkeys(TABLES | _SIZED, 1) | dict.fromkeys(_WIDE, 2)
"""{environment: how many groups after its name are not text}"""
HEADINGS = frozenset(
    (
        "part",
        "chapter",
        "section",
        "subsection",
        "subsubsection",
        "paragraph",
        "caption",
        "title",
        "frametitle",
        "framesubtitle",
        "subparagraph",
    )
)
CITES = frozenset(
    re.findall(
        r"\w+",
        "cite Cite citet Citet citep citealt citealp citeauthor citeyear citeyearpar textcite Textcite parencite"
        " autocite footcite supercite smartcite citetext",
    )
)
REFERENCES = frozenset(
    re.findall(r"\w+", "ref eqref autoref Autoref cref Cref vref Vref nameref Nameref labelcref subref thref")
)
PAGE_REFERENCES = frozenset(("pageref", "autopageref", "cpageref", "vpageref"))
TEXTUAL = frozenset(("citet", "Citet", "textcite", "Textcite"))
"""Citations in which the author is a word of the sentence."""
IN_BRACKETS = frozenset(("citep", "parencite", "autocite", "footcite", "citeyearpar"))
_ONE_GROUP = (
    "label nocite includegraphics vspace hspace vskip hskip usepackage"
    " documentclass bibliographystyle bibliography pagestyle thispagestyle index color textcolor href hypersetup cline"
    " graphicspath pagenumbering input include bibinfo author date thanks affiliation email address institute keywords"
    " urladdr curraddr subjclass dedicatory inst orcid pacs preprint lstinputlisting verbatiminput includepdf"
    " includesvg ccsdesc received markright phantom hphantom vphantom raisebox scalebox rotatebox parbox captionsetup"
    " sisetup geometry lstset tikzset pgfplotsset usetikzlibrary usetheme RequirePackage newlength newcounter"
    " stepcounter refstepcounter setlist write openin openout cmidrule hyphenation subfile pgfuseimage pgfdeclareimage"
    " citestyle crefname bibdata addbibresource tag hypertarget hyperlink colorbox rowcolor cellcolor arrayrulecolor"
    " pagecolor linespread setstretch selectlanguage foreignlanguage fontfamily fontencoding fontseries fontshape"
    " theoremstyle nobibliography includestandalone includepdfmerge todo"
    " fancyhead fancyfoot fancyhf lhead rhead chead lfoot rfoot cfoot KOMAoptions microtypesetup pdfinfo newsavebox"
    " pagebreak nopagebreak enlargethispage addvspace altaffilmark arabic roman Roman alph Alph fnsymbol value"
)
_TWO_GROUPS = (
    "setlength addtolength setcounter addtocounter newtheorem rule multicolumn multirow fontsize inputminted resizebox"
    " markboth addtocontents settowidth settoheight lstdefinestyle lstdefinelanguage DeclareSIUnit colorlet import"
    " pdfbookmark fcolorbox newcolumntype numberwithin setkomafont addtokomafont DeclareUnicodeCharacter"
    " altaffiltext"
)
NOT_TEXT = (
    dict.fromkeys(_ONE_GROUP.split(), 1)
    | dict.fromkeys(_TWO_GROUPS.split(), 2)
    | dict.fromkeys(("addcontentsline", "definecolor"), 3)
)
"""{command: how many groups after it are not text}"""
ALGORITHMS = frozenset(("algorithmic", "algpseudocode"))
PSEUDOCODE = {
    name: (before, after.strip(" -"))
    for name, before, after in re.findall(
        r"(\w+)=([^=>]*)>( \w+|-)",
        "state=>- statex=>- if=if> then elsif=else if> then elseif=else if> then else=else>- endif=end if>- for=for> do"
        " forall=for all> do while=while> do endfor=end for>- endwhile=end while>- loop=loop>- endloop=end loop>-"
        " repeat=repeat>- until=until>- return=return>- require=Require:>- ensure=Ensure:>- procedure=procedure>-"
        " function=function>- endprocedure=end procedure>- endfunction=end function>- comment=#>-",
    )
}
"""{command of an algorithm in small letters: words before and after its group}"""
NOTES = frozenset(("footnote", "footnotetext"))
_LETTERS = re.findall(
    r"(\w+)=(\S)",
    "ss=ß o=ø O=Ø ae=æ AE=Æ aa=å AA=Å l=ł L=Ł oe=œ OE=Œ i=i j=j S=§ P=¶ copyright=© pounds=£ textdegree=° dj=đ"
    " DJ=Đ dh=ð DH=Ð th=þ TH=Þ guillemotleft=« guillemotright=» flqq=« frqq=» glqq=„ grqq=“ quotedblbase=„"
    " textquotedblleft=“ textquotedblright=” textquoteleft=‘ textquoteright=’ textbar=| textless=< textgreater=>"
    " textbullet=• textmu=µ"
    " textunderscore=_ textasciicircum=^ euro=€ texteuro=€ textregistered=® texttrademark=™ texttimes=× textpm=±",
)
SIGNS = {
    **dict(_LETTERS),
    **dict.fromkeys(("ldots", "dots"), "..."),
    **dict.fromkeys(("quad", "qquad"), " "),
    **dict(re.findall(r"(\w+)=(\w+)", "ier=er iere=re ieme=e iers=ers iemes=es")),
    "og": "« ",
    "fg": " »",
    "hyp": "-",
    "textendash": "–",
    "textemdash": "—",
    "textbackslash": "\\",
    "textasciitilde": "~",
    "textasciigrave": "`",
    "textquotesingle": "'",
    "textquotedbl": '"',
    "textbraceleft": "{",
    "textbraceright": "}",
    "textdollar": "$",
    "newline": "\n",
    "par": "\n\n",
}
QUANTITIES = dict(re.findall(r"(\w+)=(\w+)", "SI=nu qty=nu si=u unit=u num=n ang=a SIrange=nnu qtyrange=nnu"))
"""{command of siunitx: whether each group is a number, a unit or an angle}"""
_PREFIXES = "kilo=k mega=M giga=G tera=T peta=P centi=c milli=m micro=µ nano=n pico=p femto=f deci=d hecto=h per=/"
UNITS = dict(
    re.findall(
        r"(\w+)=(\S+)",
        f"{_PREFIXES} metre=m meter=m second=s gram=g kilogram=kg ampere=A kelvin=K mole=mol candela=cd hertz=Hz"
        " pascal=Pa newton=N joule=J watt=W coulomb=C volt=V farad=F ohm=Ω tesla=T henry=H electronvolt=eV litre=L"
        " liter=L hour=h minute=min day=d degree=° celsius=°C degreeCelsius=°C percent=% squared=^2 square=^2 cubed=^3"
        " cubic=^3 byte=B angstrom=Å tonne=t decibel=dB radian=rad dalton=Da",
    )
)
JOINED = frozenset(pair.partition("=")[2] for pair in _PREFIXES.split())
"""Signs that the next one follows without a space."""
