"""What a reader sees of a page is there in its text: lines, lists, tables, code, quotations, formulas, Markdown."""

import pytest
from tests.kernels.html.cutting import Cut, text_of

from gristmill.kernels.html.page import PageBuffers

TEXTS = {
    # lines
    "<p>a<br>b<br/> c": "a\nb\nc",
    "<p>a<br> <br>b<br><br><br>c": "a\n\nb\n\nc",
    "<p> a <b>b </b>c<i> d</i>\n\t e ": "a b c d e",
    # scripts: powers, indices, ordinals, footnote marks
    "<p>x<sup>2</sup> + H<sub>2</sub>O": "x^2 + H_2O",
    "10<sup>6</sup>, 10<sup>-3</sup>, 5 cm<sup>3</sup>, Ca<sup>2+</sup>": "10^6, 10^{-3}, 5 cm^3, Ca^{2+}",
    "C<sub>6</sub>H<sub>12</sub>O<sub>6</sub>, <i>x</i><sub>ij</sub><sup>n+1</sup>, (a+b)<sup>2</sup>": (
        "C_6H_{12}O_6, x_{ij}^{n+1}, (a+b)^2"
    ),
    "2<sup>n</sup>, sin<sup>2</sup>x, x<sup>a<sub>i</sub></sup>, R<sub>max</sub>": "2^n, sin^2x, x^{a_i}, R_{max}",
    "1<sup>st</sup> 2<sup>e</sup> Mill<sup>TM</sup> M<sup>me</sup>": "1st 2e MillTM Mme",
    "a mill.<sup>3</sup> A wheel<sup>12</sup> (of wood)<sup>1</sup>": "a mill. A wheel (of wood)",
    "a<sup><a href='#n'>[3]</a></sup> b<a href='#n'><sup>4</sup></a> word<sup>[3]</sup>": "a b word",
    "shown<sup>1,2</sup> so<sup>1–3</sup> Ada<sup>1,*</sup> Name<sup>a</sup> in 2019<sup>5</sup>": (
        "shown so Ada Name in 2019"
    ),
    "<sup>14</sup>C, <sup>238</sup><sub>92</sub>U, SO<sub>4</sub><sup>2-</sup>": "^{14}C, ^{238}_{92}U, SO_4^{2-}",
    "mc = mc<sup>2</sup> 4ac<sup>2</sup> πr<sup>2</sup> a<sup>†</sup> A<sup>*</sup>": "mc = mc^2 4ac^2 πr^2 a^† A^*",
    "$19<sup>99</sup> 4<sup>95</sup> € $5.<sup>50</sup> 9<sup>00</sup> 10:<sup>30</sup> 19<sup>20</sup>": (
        "$19.99 4.95 € $5.50 9.00 10:30 19^{20}"
    ),
    "20<sup>o</sup>C D<sup>r</sup> Ada N<sup>o</sup> 5, D<sup>r</sup> is": "20°C Dr Ada No 5, D^r is",
    "3<sup>1</sup>/<sub>2</sub> came in<sup>3</sup> 5 in<sup>3</sup>": "3 1/2 came in 5 in^3",
    "mc<sup>2</sup>7000 x<sup>2</sup>y<sup>2</sup> H<sub>2</sub>O x<sub>i</sub>y": "mc^{2}7000 x^2y^2 H_2O x_{i}y",
    "10 <sup>6</sup> a<sup></sup> b<sup>c": "10 6 a bc",
    "<sup> <b>1</b></sup> note<p><sup><sup><sup><sup><sup>x": "1 note\n\nx",
    "<sub>x</sup>y": "xy",
    "<div>a<div>b</div>c</div>d": "a\n\nb\n\nc\n\nd",
    "a<hr>b": "a\n\nb",
    # lists
    "<ul><li>a<li>b<li> </li><li>c</ul>d": "- a\n- b\n- c\n\nd",
    "<ul><li>a<ul><li>b<ol><li>c</ol></ul><li>d</ul>": "- a\n  - b\n    1. c\n- d",
    "<ul><li><p>a</p><p>b</p></li><li>c</li></ul>": "- a\n  b\n- c",
    "<ol><li>a<li>b</ol><ol start=9><li>c<li>d</ol>": "1. a\n2. b\n9. c\n10. d",
    "<ol start=0><li>a<li value=7>b<li>c</ol>": "0. a\n7. b\n8. c",
    "<ol start=-3><li>a</ol><ol start=x><li>b</ol>": "- a\n1. b",
    "<ol start=999999999><li>a<li>b</ol>": "- a\n- b",
    "<ol type=a><li>a<ol type=I><li>b<li value=4>c</ol><li value=26>d<li>e<li>f</ol>": (
        "a. a\n  I. b\n  IV. c\nz. d\naa. e\nab. f"
    ),
    "<ol type=i start=1994><li>a</ol><ol type=A start=0><li>b<li>c<li value=18001>d</ol>": (
        "mcmxciv. a\n0. b\nA. c\n18001. d"
    ),
    "<ol reversed start=2><li>a<li>b<li>c<li>d</ol><ol reversed><li>e</ol>": "2. a\n1. b\n0. c\n- d\n- e",
    "<ul>" * 20 + "<li>a": "                - a",
    "<ul><li>a<pre>b\n  c</pre></ul>": "- a\nb\n  c",
    "<dl><dt>a<dd>b<dd>c<dt>d</dl>": "a\nb\nc\n\nd",
    # tables
    "<table><caption>t<tr><th>a<th>b<tr><td>1<td>2</table>": "t\n\na | b\n1 | 2",
    "<table><tr><td>a<td> <td>c</table>": "a |  | c",
    "<table><tr><td></td><td></td><th>b<td>c<td></table>": "|  | b | c",
    "<h2>Title<a class=headerlink href='#t'>¶</a></h2>": "Title",
    "<h2>Title <a href='#t'>#</a></h2><p><a href=#1>#</a> in <a href=/c>#</a>": "Title\n\n# in #",
    "<p>A note.<a href='#r'>↩︎</a><p><a href='#r'>↑</a> a <a href=/r>↩</a> <a href='#r'>↩ b</a>": "A note.\n\na ↩ ↩ b",
    "<dl><dt>a<span class=classifier>int</span><dd>b": "a : int\nb",
    "<dl><dt>a <b>:</b> <span class=classifier>int</span><dt><span class=classifier>c": "a : int\n\nc",
    "<p>seen<span style='display:none'>unseen</span> words</p>": "seen words",
    "<table><tr><td>a<br>b<td>c</table>": "a\nb\n\nc",
    "<table><tr><td>a<td>b<br>c</table>": "a\n\nb\nc",
    "<table><tr><td>a<td><p>b<p>c</table>": "a | b c",
    "<table><tr><td>a<p>b<td><td><ul><li>c<li>d</ul><tr><td><ul><li>e</ul><td>f</table>": "a b |  | c d\ne | f",
    "<table><tr><td><p>a<p>b</table>": "a\n\nb",
    "<table><tr><td>a<td><h3>b</h3><p>c</table>": "a\n\nb\n\nc",
    f"<table><tr><td>a<td><p>{'b ' * 60}<p>{'c ' * 60}</table>": f"a\n\n{'b ' * 59}b\n\n{'c ' * 59}c",
    "<table><tr><td><pre>1\n2</pre><td><pre>a\nb</pre></table>": "1\n2\n\na\nb",
    f"<table><tr><td>a<td>{'b' * 201}</table>": f"a\n\n{'b' * 201}",
    "<table><tr><td>a<table><tr><td>b<td>c</table>d<td>e</table>": "a\n\nb | c\n\nd | e",
    # code
    "<pre>\n\n  a\n\tb  c\n\n\nd \n</pre>": "  a\n\tb  c\n\n\nd",
    "<pre>a\r\nb\rc\x0cd</pre>": "a\nb\nc\nd",
    "<pre>a:\n&nbsp;&nbsp;&#32;b&#10;&#9;c&NewLine;\xa0d</pre>": "a:\n   b\n\tc\n d",
    "<pre><div>a</div><div>  b</div><p>c</pre>": "a\n  b\nc",
    "<pre><code><span>if</span> a:\n  <b>b</b>\n</code></pre>": "if a:\n  b",
    "<pre>a<br>b<br><br>  c</pre>": "a\nb\n\n  c",
    "<pre>a  <svg></svg>  b</pre>": "a    b",
    "<pre>a<svg></svg>b\n  <svg></svg>c<input>\nd</pre>": "a b\n  c\nd",
    "<div class=fragment><div class=line>a</div>\n <div class=line> </div>\n<div class=line>  b<i>  c</i></div>\n"
    "<div class=ttc><div>d</div></div></div><div>e  f</div>": "a\n \n  b  c\n\ne f",
    "<table><tr><td><div class=fragment><div class=line>a</table><pre>b\n\n  c</pre>": "a\n\nb\n\n  c",
    "<div class=ttc>a": "a",
    "<p>a <code>b  c</code>": "a b c",
    # quotations and readings
    "<p>say <q>a b</q>, <q>c</q>.": 'say "a b", "c".',
    "<p><q>a</q> b": '"a" b',
    "<p>\u201e<q>a</q>\u201c b</q>": "\u201ea\u201c b",
    "<p><q></q><p>a": "a",
    "<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp>字<rp>(</rp><rt>ji</rt><rp>)</rp></ruby>。": "漢(kan)字(ji)。",
    "<ruby>漢 <rt>kan <rt></rt>字 <rt>ji</ruby> x": "漢(kan)字(ji) x",
    "<ruby>漢<rp>(<rt>kan<rp>)</ruby>, <ruby>字<rp>(</rp><rt>ji</rt><rp>)</rp></ruby>": "漢(kan), 字(ji)",
    "<p><rt>a</rt>": "a",
    # formulas
    "a <math alttext='x&lt;y'><mi>x</mi></math> b": "a $x<y$ b",
    "<math display=block alttext='{\\displaystyle x}'><mi>x</mi></math>": "$$x$$",
    '<math alttext=""><mi>x</mi><annotation encoding="application/x-tex">y</annotation></math>': "$y$",
    "<math><mi>x</mi><annotation encoding=other>y</annotation><annotation encoding=TeX>z</math>.": "$z$.",
    "<math alttext=x></math><img class='mwe-math-fallback-image-inline' alt='x'>": "$x$",
    "<img class='mwe-math-fallback' alt='{\\displaystyle x}'>, <img class=tex alt=y> <img class='latex z' alt=z>": (
        "$x$, $y$ $z$"
    ),
    "<img class=tex alt=y></img>": "$y$",
    "a<img class=text-center alt=b><img class=latexture alt=c></img>": "a",
    '<span class=katex><span class=katex-mathml><math><mi>x</mi><annotation encoding="application/x-tex">x^2'
    "</annotation></math></span><span class=katex-html><span>x</span><span>2</span></span></span> a": "$x^2$ a",
    '<span class=MathJax_Preview>p</span><span class="MathJax"><span>x</span></span>'
    '<script type="math/tex">x_1</script> and <script type="math/tex; mode=display">y</script>': "$x_1$ and $$y$$",
    "<mjx-container><mjx-math><mjx-mi>x</mjx-mi></mjx-math><mjx-assistive-mml><math alttext=x><mi>x</mi></math>"
    "</mjx-assistive-mml></mjx-container> a": "$x$ a",
    '<mjx-container jax="SVG" display="true"><svg data-latex="x&lt;1"></svg></mjx-container>.': "$$x<1$$.",
    '<mjx-container><mjx-math data-latex="a"></mjx-math><mjx-assistive-mml><math data-latex="y_1"><mi>y</mi></math>'
    "</mjx-assistive-mml></mjx-container>": "$y_1$",
    "<img alt='$x^2$'> <img alt='\\[y\\]'> <img alt='a $5 mill'>": "$x^2$ $$y$$",
    "<script type=math/tex>a % a note\n+b</script> and <script type=math/tex>5% c</script>": "$a +b$ and $5% c$",
    "<math/>a<math><mi>x</mi><math><mi>y</mi></math>": "axy",
}

MARKDOWN = {
    "<h1>a</h1><h3>b</h3>c": "# a\n\n### b\n\nc",
    "<p>a <b>b</b> <strong> c </strong><i>d</i> <em>e</em> <code>f</code>": "a **b** **c** *d* *e* `f`",
    "<p><b>a<i>b</i></b><b></b>": "**a*b***",
    "<p><b>a<b>b<b>c": "**a****b**c",
    "<p>a <a href='http://x.example/?a b'>b c</a> <a>d</a> <a href=''>e</a> <a href=f> </a>": (
        "a [b c](http://x.example/?ab) d e"
    ),
    "<h2>a<br>b</h2><blockquote><h3>c<br>d</h3><pre>\te\nf": "## a b\n\n> ### c d\n>\n> ```\n> \te\n> f\n> ```",
    "<pre>a\n```\nb````</pre>": "`````\na\n```\nb````\n`````",
    "<ul><li>a<ol><li>b</ol></ul>": "- a\n  1. b",
    "<table><tr><th>a<th>b<tr><td>1<td>2</table>": "| a | b |\n|---|---|\n| 1 | 2 |",
    "<table><tr><th>|a<th>b</table>": "| |a | b |\n|---|---|",
    "<pre>a\n  <b>b</b> <a href=x>c</a></pre>": "```\na\n  b c\n```",
    "<blockquote><p>a<br>b<p>c</blockquote>d": "> a\n> b\n>\n> c\n\nd",
    "<blockquote><pre>a\nb</pre></blockquote>": "> ```\n> a\n> b\n> ```",
    "<table><tbody><tr><td>a<td>b</table><table><tr><td>c<td>d<tr><td>e<td>f</table>": (
        "| a | b |\n|---|---|\n\n| c | d |\n|---|---|\n| e | f |"
    ),
    "<table><thead><tr><td>a<td>b<tbody><tr><td>c<td>d</table>": "| a | b |\n|---|---|\n| c | d |",
    "<blockquote><table><tr><td>a<td>b</table></blockquote>": "> | a | b |\n> |---|---|",
}


@pytest.mark.parametrize("page", TEXTS)
def test_plain_text(page: str) -> None:
    """Each as it should read."""
    assert text_of(page) == TEXTS[page]


@pytest.mark.parametrize("page", MARKDOWN)
def test_markdown(page: str) -> None:
    """Each as a reader of Markdown expects it."""
    assert text_of(page, markdown=True) == MARKDOWN[page]


UNITS = [
    "<b>x",
    "<b>&nGt;",
    "<b>x<p>",
    "<b>x<b>y<td>",
    "<i>x</i>",
    "<tt>x</tt>",
    "<b><i><tt>x</tt></i></b>",
    "<a href=x>y",
    "<a href=x>y</a>",
    "<q>",
    "<q>x",
    "<rt>",
    "x<rt>",
    "<ruby>x<rt>",
    "x<p>",
    "x<br>",
    "x<hr>",
    "<h6>x",
    "&nGt;",
    "&nGt;<p>",
    "x<q>",
    "<td>x",
    "<li>x",
    "<ol><li>x",
    "<ul><li>x",
    "<ol start=999999><li>x",
    "<pre>x<p>",
    "<math alttext=x></math>",
    "<script type=math/tex>x</script>",
    "x<sup>y</sup>",
    "<sup>x",
    "<sup>",
    "<img class=tex alt=x>",
    "<table><tr><td>Ĥ",
    "<tr><td>x<td>y",
    "<blockquote>a<br>",
    "<blockquote><table><tr><td>x<td>y",
    "<input>x",
    "x<svg/>y",
    "<td>|",
    "<tr><td> |<td>|",
    "<pre>```````",
    "<pre>`</pre>",
]
BEGINNINGS = (
    "",
    "x",
    "<blockquote>",
    "<blockquote><table><tr>",
    "<pre>",
    "<ul>" * 20 + "<li>",
    "<table><tr><td>| |<td>",
)


@pytest.mark.parametrize("unit", UNITS)
def test_nothing_needs_more_memory_than_there_is(unit: str) -> None:
    """The size of the page limits what is written, whatever the page repeats, in Markdown too."""
    for beginning in BEGINNINGS:
        for times in (1, 3, 500):
            page = beginning + unit * times
            for markdown in (False, True):
                roomy = Cut(page, markdown, 4 * len(page) + 100)
                room = PageBuffers(len(page))
                assert roomy.used_bytes + 8 <= room.texts.size
                assert roomy.count <= len(room.tables[0])
                text = roomy.written()
                assert len(text) <= room.out.size
                assert Cut(page, markdown).written() == text
