"""Papers in LaTeX: a file, a tar file or a folder; macros are expanded in bounded work."""

import contextlib
import gzip
import io
import tarfile
import tracemalloc

import pytest

from gristmill.stages.contract import Piece
from gristmill.stages.reading.decompress import ReadFault
from gristmill_formats import latex
from gristmill_formats.tex.expand import Macros

MAIN = r"""\documentclass[12pt]{article} % \title{no}
\newcommand{\R}{\mathbb{R}}
\newcommand{\norm}[2][2]{\|#2\|_{#1}}
\def\twice#1{#1 #1}
\DeclareMathOperator{\rank}{rank}
\title{On the \emph{Mill}: 50\% more}
\author{A. Miller}
\begin{document}
\maketitle
\section*{Intro} \label{sec:i}
Caf\'e na\"{\i}ve ``flour'' --- \twice{word}, as \citet{smith} says \citep[p.~3]{smith,jones}\footnote{A note.}.
Let $x \in \R$ and \(\norm{x} < 1\).
\begin{equation}\label{eq:1}
  \rank A = \norm[1]{y}
\end{equation}
\input{parts/two}
\begin{itemize}
\item one
\item[b)] two
\end{itemize}
\begin{tabular}{lc}\hline a & b \\ 1 & 2 \\ \hline\end{tabular}
\begin{verbatim}
x % no comment
\end{verbatim}
\begin{thebibliography}{9}\bibitem{a} Old\end{thebibliography}
\end{document}
after"""
TEXT = (
    'On the Mill: 50% more\n\nIntro\n\nCafé naïve "flour" — word word, as Smith et al. (2005) says '
    "(Smith et al., 2005; Jones, 2006, p. 3) (A note.). Let $x \\in \\mathbb{R}$ and $\\|x\\|_{2} < 1$.\n\n"
    "$$\\operatorname{rank} A = \\|y\\|_{1}$$\n\nThe second part.\n\n- one\n- b) two\n\na | b\n1 | 2\n\nx % no comment"
)
FILES = {
    "main.tex": MAIN,
    "parts/two.tex": "The second part. % gone",
    "main.bbl": r"\bibitem[Smith et~al.(2005)Smith]{smith} S. \bibitem[Jones, 2006]{jones} J.",
    "figure.png": "\x89PNG",
}


def tarred(files):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))
    return sink.getvalue()


def row(tmp_path, data, name="a.tex", **config):
    (tmp_path / "in").write_bytes(data if isinstance(data, bytes) else data.encode())
    [found] = latex.read(Piece(str(tmp_path / "in"), name), latex.Config(**config))
    return found


def test_a_tar_file_is_one_paper(tmp_path):
    """Prose and formulas, with macros expanded and inputs read; without comments, preamble and references."""
    found = row(tmp_path, tarred(FILES), "1501.00001.tar")
    assert (found.text, found.title, found.drop) == (TEXT, "On the Mill: 50% more", None)


def test_a_folder_is_one_paper(tmp_path):
    """The file with the \\documentclass reads the others, which the engine hashes with it; they are not papers."""
    names = [f"paper/{name}" for name in FILES]
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    near = latex.companions(names)
    assert near["paper/main.tex"] == ("paper/main.bbl", "paper/main.tex", "paper/parts/two.tex")
    assert near["paper/main.tex"] is near["paper/main.bbl"]
    others = [Piece(str(tmp_path / name[6:]), name) for name in near["paper/main.tex"]]
    [found] = latex.read(Piece(str(tmp_path / "main.tex"), "paper/main.tex"), latex.Config(), companions=others)
    assert found.text == TEXT
    assert near["paper/parts/two.tex"] == ("paper/main.bbl", "paper/main.tex", "paper/parts/two.tex")
    beside = [Piece(str(tmp_path / "main.tex"), "paper/main.tex")]
    for name in ("parts/two.tex", "main.bbl"):
        [part] = latex.read(Piece(str(tmp_path / name), f"paper/{name}"), latex.Config(), companions=beside)
        assert (part.drop, part.text) == ("part_of_paper", None)
    assert [latex.wanted(name, latex.Config()) for name in FILES] == [True, True, True, False]


def test_a_folder_is_searched_once_for_all_its_files(tmp_path, monkeypatch):
    """Its files share one tuple of companions: the work grows with their number and not with its square."""
    names = ["main.tex", *(f"part{n}.tex" for n in range(50))]
    for name in names:
        (tmp_path / name).write_text(r"\documentclass{a}x" if name == "main.tex" else "x")
    near = latex.companions(names)
    assert len({id(others) for others in near.values()}) == 1
    pieces = tuple(Piece(str(tmp_path / name), name) for name in near["main.tex"])
    opened = []
    open_piece = Piece.open
    monkeypatch.setattr(Piece, "open", lambda piece: opened.append(piece.name) or open_piece(piece))
    reasons = [one.drop for piece in pieces for one in latex.read(piece, latex.Config(), companions=pieces)]
    assert reasons == [None, *["part_of_paper"] * 50]
    assert len(opened) == 2 * len(names)


def test_files_of_a_folder_that_is_too_large_say_so(tmp_path):
    """No file with a \\documentclass is searched for there."""
    near = latex.companions([f"part{n}.tex" for n in range(latex.MAX_FILES + 1)])
    assert {*near.values()} == {()}
    (tmp_path / "a.tex").write_text("x")
    [found] = latex.read(Piece(str(tmp_path / "a.tex"), "a.tex"), latex.Config(), companions=())
    assert (found.drop, found.detail) == ("folder_too_large", "no \\documentclass, and more than 1000 files to search")


def test_a_file_reads_only_what_it_includes(tmp_path):
    """Of a folder with many papers, each reads its own files and its own references."""
    (tmp_path / "a.tex").write_text(r"\documentclass{a}\begin{document}See \cite{a}.")
    (tmp_path / "a.bbl").write_text(r"\bibitem[Smith, 2005]{a}")
    near = [Piece(str(tmp_path / name), name) for name in ("a.bbl", "b.bbl", "b.tex")]  # the last two do not exist
    [found] = latex.read(Piece(str(tmp_path / "a.tex"), "a.tex"), latex.Config(), companions=near)
    assert found.text == "See Smith, 2005."


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("plain words", "not_latex"),
        (r"\documentclass{a}\newcommand{\a}{\a}\begin{document}\a", "empty_text"),
        (r"\documentclass{a}\def\a#1{\a{#1#1}}\begin{document}\a{x}", "empty_text"),
        (
            r"\documentclass{a}"
            + "".join(f"\\def\\{chr(98 + n)}{{" + f"\\{chr(97 + n)}" * 20 + "}" for n in range(9))
            + r"\def\a{ha}\j",
            "macros_without_end",
        ),
        (r"\documentclass{a}\begin{document}" + r"\input{b}" * 5000, "empty_text"),
        (r"\documentclass{a}\begin{document}\section{}", "empty_text"),
        (tarred(FILES)[:1200], "corrupt_tar"),
        (tarred({"../../etc/main.tex": "words"}), "not_latex"),
    ],
    ids=["no paper", "loop", "growing loop", "bomb", "inputs of nothing", "empty", "cut", "path out"],
)
def test_a_hostile_paper_is_a_row_with_a_reason(tmp_path, source, reason):
    """Macros without end, damaged archives; the row has no text."""
    found = row(tmp_path, source, "a.tar" if isinstance(source, bytes) else "a.tex")
    assert (found.drop, found.text) == (reason, None)


def test_macros_in_arguments_of_macros_take_no_memory_for_each_level():
    """Before, the places of all braces were held once for each level: 560 bytes for each letter of the source."""
    source = r"\newcommand{\a}[1]{[#1]}" + r"\a{" * 28 + r"\a{}" * 20_000 + "}" * 28
    tracemalloc.start()
    with contextlib.suppress(ReadFault):
        Macros(len(source)).expand(source)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 100 * len(source)


def test_files_that_include_each_other_are_one_row_with_a_reason(tmp_path):
    """Their text is not written out over and over."""
    files = {
        "main.tex": "\\documentclass{a}\\begin{document}\\input{x}",
        "x.tex": "X \\input{y}",
        "y.tex": "Y \\input{x}",
    }
    found = row(tmp_path, tarred(files), "paper.tar")
    assert (found.drop, found.detail) == ("inputs_without_end", "x.tex includes itself, through 3 files")


def test_a_file_that_includes_itself_ends(tmp_path):
    """Inputs go ten files deep, and a file is included four times on average."""
    loop = "\\documentclass{a}\\begin{document}x \\input{a}"
    assert row(tmp_path, loop).drop == "inputs_without_end"
    assert row(tmp_path, loop + "%" + "x" * 99).drop == "inputs_without_end"


def test_statements_have_their_names(tmp_path):
    """A reader of the paper sees them; references to numbers leave no gap before a bracket."""
    source = "\\begin{lemma}[Zorn]\n\\label{l}\nLet (see \\ref{x}).\n\\end{lemma}\\begin{proof}Easy.\\end{proof}"
    found = row(tmp_path, f"\\documentclass{{a}}\\begin{{document}}{source}".encode())
    assert found.text == "Lemma (Zorn). Let (see [x]).\n\nProof. Easy."


def test_short_verbatim_text_and_german_letters_are_kept(tmp_path):
    """\\verb|...| is text as it is, also in formulas of other signs; in a comment, it is a comment."""
    source = 'Use \\verb|\\x{%}| or \\lstinline!y=1!. "Ubung % \\verb|z|\nw'
    german = "\\documentclass{a}\\usepackage[english,ngerman]{babel}\\begin{document}" + source + "\\end{document}"
    (tmp_path / "a.tex").write_text(german)
    [found] = latex.read(Piece(str(tmp_path / "a.tex"), "a.tex"), latex.Config())
    assert found.text == "Use \\x{%} or y=1. Übung w"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"\immediate\write18{rm x}\openin5=a.txt\lstinputlisting[language=C]{a.c}\includepdf{a.pdf}y", "y"),
        (r"\parindent=0pt\vskip 3pt plus 1fil\setlength\parskip{2pt}y\\[2pt]z", "y z"),
        (r"a\iffalse b \ifx c\else d\fi e\fi f \iffalse g\else h\fi i \iffalse j", "a f hi j"),
        (r"\let\b=\textbf \renewcommand{\textbf}[1]{\b{#1}!}\textbf{a} \b{b}", "a! b"),
        (r"\newcommand{\m}{mill\xspace}The \m turns. A \m.", "The mill turns. A mill."),
        (r"\NewDocumentCommand\n{O{x} m}{#1-#2}\n{a} \n[b]{c}", "x-a b-c"),
        (r"\def\n#1.{(#1)}a", "a"),
        (r"\newenvironment{note}[1]{Note #1: }{ End.}\begin{note}{a}b\end{note}", "Note a: b End."),
        (r"\newtheorem{satz}{Satz}\begin{satz}Es gilt.\end{satz}", "Satz. Es gilt."),
        (r"\SI{3.5}{\kilo\metre\per\second}, \num{1e5}, \ang{45}, \si{kg.m}", "3.5 km/s, 1e5, 45°, kg m"),
        (r"\begin{tabular*}{9cm}{ll}\$5 & .01 \\ \cmidrule(lr){1-2}b & c\end{tabular*}", "$5 | .01\nb | c"),
        (r"\begin{minted}[x=y]{python}" + "\na % b\n" + r"\end{minted}", "a % b"),
        (r"\begin{align}a &= b\label{c}\\ c\end{align}", r"$$\begin{aligned}a &= b\\ c\end{aligned}$$"),
        (r"\renewcommand\section{\@startsection{section}{1}{0pt}{2ex}{1ex}{\bf}}\section{A}b", "A\n\nb"),
        (r"\newcommand{\h}{\@startsection {section}{1}{0pt}{2ex}{1ex}{}}\h{A}b", "A\n\nb"),
        ("a $x\n\nb $y$ \\(z\n\nc \\(w\\)", "a x\n\nb $y$ z\n\nc $w$"),
        (r"\begin{itemize}\item<1-> a\item<2> b\end{itemize}\includegraphics<3>{x}\ldots<b", "- a\n- b\n\n...<b"),
        (r"\pdfbookmark[1]{A}{b}\urladdr{x}a", "a"),
        (r"10\textsuperscript{6} H\textsubscript{2}O 1\textsuperscript{st} 2\ieme{}", "10^6 H_2O 1st 2e"),
        (r"mc\textsuperscript{2}7000 \emph{x\textsubscript{i}}y", "mc^{2}7000 x_{i}y"),
        (r"\item[\textbf{Mill} \ldots] a \item[{[x]}] b", "- Mill ... a\n- [[x]] b"),
        (
            r"\begin{enumerate}\item a\begin{enumerate}\item b\item c\end{enumerate}\item[x)] d\item e\end{enumerate}",
            "1. a\n  (a) b\n  (b) c\n- x) d\n2. e",
        ),
        (r"\begin{enumerate}[start=3]\item a\setcounter{enumi}{6}\item b\end{enumerate}", "3. a\n7. b"),
        (
            r"\begin{longtable}{l}A & B\\\endfirsthead A & B\\\endhead Next & page\endfoot"
            r"\hline\endlastfoot 1 & 2 \\ 3 & 4\end{longtable}",
            "A | B\n1 | 2\n3 | 4",
        ),
        (r"\edef \x {\arabic{y}}\stepcounter{y}\altaffiltext{\x}{Mill}a\altaffilmark{\x}", "a"),
        (r"\hypertarget{mill}{%\n\section{Mill}\label{mill}}a".replace("\\n", "\n"), "Mill\n\na"),
        (r"\nolinkurl{a.b/~c} \href{a.b/~c}{d}", "a.b/~c d"),
        ("\\begin{itemize}\n\\item\n\na\n\\item\n\\end{itemize}b", "- a\n\nb"),
        (r"\medskip\begin{quote}a\end{quote}\noindent\cite{b}\bigskip\section{C}", "a\n\nC"),
        (
            r"\hbox to 3cm{a}\kern-.125em X\hrule height 4pt width\textwidth\begin{tabu} to 5cm{ll}b & c\end{tabu}",
            "aX\n\nb | c",
        ),
        (r"`a' ``b'' \og c\fg{} \enquote{d} TH\+\_X \=\hskip6pc e", '\'a\' "b" « c » "d" TH_X =e'),
        (
            r"\makebox[3cm][c]{a}\addvspace{3ex plus 1ex}\subfloat[Short][The \emph{mill}]{\includegraphics{x}}",
            "a\n\nThe mill",
        ),
        (r"\begin{tabbing}XXX \= YY \kill $x$ \> mass\\ZZ\=\kill b\end{tabbing}", "$x$ mass b"),
        (r"\begin{tabbing}a \= b \\ c \> d\end{tabbing}", "a b c d"),
        ("漢字と\nかな and\nb \\\\か\\\\な", "漢字とかな and b か な"),
        ("a%\\begin{verbatim}\n% x\n%\\end{verbatim}\nb \\\\% c\nd\\% e", "ab d% e"),
        (r"\url{http://a.b/~c_d%20e} \href{http://x/%7e}{y} \url{a\_b}", "http://a.b/~c_d%20e y a_b"),
        ("\\begin{Verbatim}[frame=single,\n  label=a]\n%b\n\\end{Verbatim}", "%b"),
        (
            r"\begin{algorithmic}\Require $n$\State $x$ \Comment{a}"
            + "\n"
            + r"\If{$x$}\RETURN b\EndIf\end{algorithmic}",
            "Require: $n$\n$x$ # a\nif $x$ then\nreturn b\nend if",
        ),
        (r"\XeTeX{} and a .tex file \ref{a}.", "XeTeX and a .tex file [a]."),
    ],
)
def test_commands_leave_what_a_reader_sees(tmp_path, source, text):
    """Names of files, lengths and hidden parts go; macros, quantities and statements are written out."""
    assert row(tmp_path, f"\\documentclass{{a}}\\begin{{document}}{source}\\end{{document}}").text == text


@pytest.mark.parametrize(
    ("cited", "text"),
    [
        (r"\citet{a}", "Smith (2005)"),
        (r"\citet[p.~3]{a,b}", "Smith (2005); Jones (2006, p. 3)"),
        (r"\citep{a}", "(Smith, 2005)"),
        (r"\citep[see][p.~3]{a}", "(see Smith, 2005, p. 3)"),
        (r"\citep[see][]{a}", "(see Smith, 2005)"),
        (r"\citealp{a}", "Smith, 2005"),
        (r"\citeauthor{a} \citeyearpar{a}", "Smith (2005)"),
        (r"x\citep[see][p.~3]{c}", "x"),
    ],
)
def test_citations_have_author_year_and_notes(tmp_path, cited, text):
    """As natbib and biblatex write them; a reference without author and year leaves nothing."""
    paper = {
        "a.tex": rf"\documentclass{{a}}\begin{{document}}{cited}\end{{document}}",
        "a.bbl": r"\bibitem[Smith(2005)]{a} \bibitem[Jones(2006)]{b}",
    }
    assert row(tmp_path, tarred(paper), "a.tar").text == text


CODE = "def f(x):\n    return {x: 10 % 3}  # \\a"


@pytest.mark.parametrize(
    ("defined", "opened", "closed"),
    [
        (r"\DefineVerbatimEnvironment{Code}{Verbatim}{fontsize=\small}", r"\begin{Code}[x=y]", r"\end{Code}"),
        (r"\lstnewenvironment{py}{\lstset{a}}{}", r"\begin{py}", r"\end{py}"),
        (r"\newminted{python}{linenos}", r"\begin{pythoncode}", r"\end{pythoncode}"),
        (r"\newminted[py]{python}{linenos}", r"\begin{py}", r"\end{py}"),
        (r"\newtcblisting[a]{py}{b}", r"\begin{py}", r"\end{py}"),
        (r"\newenvironment{code}{\verbatim}{\endverbatim}", r"\begin{code}", r"\end{code}"),
        (r"\input{setup}", r"\begin{inner}", r"\end{inner}"),
    ],
)
def test_lines_of_code_stay_lines_in_environments_of_the_paper(tmp_path, defined, opened, closed):
    """Their definitions are in the main file, or in a file that its preamble includes."""
    main = f"\\documentclass{{a}}\n{defined}\n\\begin{{document}}\na\n{opened}\n{CODE}\n{closed}\nb"
    paper = {"a.tex": main, "setup.tex": r"\DefineVerbatimEnvironment{inner}{Verbatim}{}"}
    assert row(tmp_path, tarred(paper), "a.tar").text == f"a\n\n{CODE}\n\nb"


def test_commands_in_code_of_pandoc_and_pygments_are_written(tmp_path):
    """`commandchars` gives \\, { and } their meaning in verbatim text."""
    pandoc = (
        r"\DefineVerbatimEnvironment{Highlighting}{Verbatim}{commandchars=\\\{\}}\newenvironment{Shaded}{}{}\begin{document}"
        "\\begin{Shaded}\n\\begin{Highlighting}[]\n"
        r"\KeywordTok{def}\NormalTok{ f(x):}"
        "\n"
        r"    \ControlFlowTok{return}\NormalTok{ \{x: }\DecValTok{10} \OperatorTok{%} "
        r"\DecValTok{3}\NormalTok{\}  }\CommentTok{# \textbackslash{}a}"
        "\n\\end{Highlighting}\n\\end{Shaded}\n"
    )
    pygments = (
        "\\begin{document}\\begin{Verbatim}[commandchars=\\\\\\{\\}]\n"
        r"\PYG{k}{def} f(x)\PYG{p}{:}"
        "\n"
        r"    \PYG{k}{return} \PYGZob{}x\PYG{p}{:} 10 \PYGZpc{} 3\PYGZcb{}  \PYG{c}{\PYGZsh{} \PYGZbs{}a}"
        "\n\\end{Verbatim}\n"
    )
    for source in (pandoc, pygments):
        assert row(tmp_path, f"\\documentclass{{a}}{source}\\end{{document}}").text == CODE


@pytest.mark.parametrize(
    "name",
    ["2103.00002", "2103.00003.gz", "0704.0001v2.tar.gz", "hep-th9901001.gz", "x/math.GT0309136", "0704.0001.tar"],
)
def test_files_named_as_arxiv_names_them_are_read(tmp_path, name):
    """A number needs no suffix, unless the recipe lists suffixes; the content says whether it is a tar file."""
    assert latex.wanted(name, latex.Config())
    assert not latex.wanted("2103.00002", latex.Config(suffixes=(".tex",)))
    assert not latex.wanted(f".git/{name}", latex.Config())
    paper = (
        tarred({"a.tex": "\\documentclass{a}\\begin{document}Mill"}) if "gz" not in name else b"\\documentclass{a}Mill"
    )
    assert row(tmp_path, gzip.compress(paper) if "gz" in name else paper, name).text == "Mill"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"See Section~\ref{s}.\section{The \emph{mill}}\label{s}", 'See Section "The mill".\n\nThe mill'),
        (r"\hypertarget{s}{\section{Mill}\label{s}}\autoref{s}", 'Mill\n\n"Mill"'),
        (r"\subsection{Mill\label{s}}\nameref{s}", 'Mill\n\n"Mill"'),
        (
            r"\begin{equation}\label{e}a\end{equation}\begin{align}b\label{f}\\c\label{g}\end{align}"
            r"By \eqref{e}, \cref{f,h}.",
            "$$a$$ [e]\n\n$$\\begin{aligned}b\\\\c\\end{aligned}$$ [f]\n\nBy [e], [f], [h].",
        ),
        (r"\begin{lemma}[Zorn]\label{z}A\end{lemma}Lemma~\ref{z}", "Lemma [z] (Zorn). A\n\nLemma [z]"),
        (
            r"\begin{figure}\caption{A mill.}\label{f}\end{figure}\begin{figure}\caption{B.}\label{g}\end{figure}"
            r"Fig.~\ref{f} shows",
            "[f] A mill.\n\nB.\n\nFig. [f] shows",
        ),
        (r"Fig.~\ref{f} on page~\pageref{f} shows (page \pageref{f}) on p.~\pageref{f}.", "Fig. [f] shows."),
        (r"\section{" + "a" * 101 + r"}\label{s}\ref{s}", "a" * 101 + "\n\n[s]"),
    ],
)
def test_references_leave_no_gap(tmp_path, source, text):
    """A section is named by its title, anything else by its label, which is written where it is if it is used."""
    assert row(tmp_path, f"\\documentclass{{a}}\\begin{{document}}{source}\\end{{document}}").text == text


def test_title_and_abstract_of_the_preamble_are_text(tmp_path):
    """Some classes have the abstract as a command; a title of several lines is one line."""
    preamble = r"\documentclass{apa6}\title{On\\ \par mills}\abstract{They \emph{grind}.}\begin{document}"
    found = row(tmp_path, preamble + r"\maketitle Flour.\end{document}")
    assert (found.title, found.text) == ("On mills", "On mills\n\nThey grind.\n\nFlour.")


@pytest.mark.parametrize(
    "preamble",
    [r"\documentclass{ltxdoc}", r"\documentclass{a}\MakeShortVerb{\|}", r"\documentclass{a}\DefineShortVerb{\|}"],
)
def test_signs_of_short_verbatim_text_are_known(tmp_path, preamble):
    """By the package that defines them, or by the class."""
    found = row(tmp_path, preamble + r"\begin{document}Write |\def\a{%}| or |b|.\end{document}")
    assert found.text == r"Write \def\a{%} or b."


def test_compressed_files_of_a_folder_are_included(tmp_path):
    """As Debian's packages have them."""
    (tmp_path / "a.tex.gz").write_bytes(gzip.compress(rb"\documentclass{a}\begin{document}See \input{b}"))
    (tmp_path / "b.tex.gz").write_bytes(gzip.compress(b"the mill."))
    pieces = {name: Piece(str(tmp_path / name), name) for name in ("a.tex.gz", "b.tex.gz")}
    assert latex.companions(list(pieces)) == dict.fromkeys(pieces, ("a.tex.gz", "b.tex.gz"))
    [found] = latex.read(pieces["a.tex.gz"], latex.Config(), companions=[pieces["b.tex.gz"]])
    [part] = latex.read(pieces["b.tex.gz"], latex.Config(), companions=[pieces["a.tex.gz"]])
    assert (found.text, part.drop) == ("See the mill.", "part_of_paper")
