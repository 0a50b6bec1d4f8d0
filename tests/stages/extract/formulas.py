# ruff: noqa: E501 (markup is clearer on one line)
"""Formulas as they appear in pages, and the expected LaTeX."""

A_OVER_B = "<mfrac><mi>a</mi><mi>b</mi></mfrac>"
TABLE = "<mtable><mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr><mtr><mtd><mi>c</mi></mtd><mtd><mi>d</mi></mtd></mtr></mtable>"

FORMULAS = {
    "quadratic formula, as browsers' handbooks print it": (
        """<math display="block">
          <mrow> <mi>x</mi> <mo>=</mo>
            <mfrac>
              <mrow> <mrow><mo>−</mo><mi>b</mi></mrow> <mo>±</mo>
                <msqrt> <msup><mi>b</mi><mn>2</mn></msup> <mo>−</mo> <mrow><mn>4</mn><mo>⁢</mo><mi>a</mi><mo>⁢</mo><mi>c</mi></mrow> </msqrt>
              </mrow>
              <mrow> <mn>2</mn> <mo>&InvisibleTimes;</mo> <mi>a</mi> </mrow>
            </mfrac>
          </mrow>
        </math>""",
        r"x=\frac{-b\pm\sqrt{b^2-4ac}}{2a}",
    ),
    "t-SNE, as Wikipedia writes it": (
        """<mrow class="MJX-TeXAtom-ORD"><mstyle displaystyle="true" scriptlevel="0">
          <msub><mi>p</mi><mrow class="MJX-TeXAtom-ORD"><mi>j</mi><mo>∣<!-- ∣ --></mo><mi>i</mi></mrow></msub><mo>=</mo>
          <mrow class="MJX-TeXAtom-ORD"><mfrac><mrow><mi>exp</mi><mo>⁡<!-- ⁡ --></mo><mo stretchy="false">(</mo><mo>−</mo>
          <mo fence="false" stretchy="false">‖</mo><msub><mrow><mi mathvariant="bold">x</mi></mrow><mrow><mi>i</mi></mrow></msub>
          <msup><mo fence="false" stretchy="false">‖</mo><mrow><mn>2</mn></mrow></msup><mo stretchy="false">)</mo></mrow>
          <mrow><munder><mo>∑</mo><mrow><mi>k</mi><mo>≠</mo><mi>i</mi></mrow></munder><msubsup><mi>σ</mi><mi>i</mi><mn>2</mn></msubsup></mrow>
          </mfrac></mrow></mstyle></mrow>""",
        r"p_{j\mid i}=\frac{\exp(-\|\mathbf{x}_i\|^2)}{\sum_{k\neq i}\sigma_i^2}",
    ),
    "limit": (
        "<munder><mi>lim</mi><mrow><mi>x</mi><mo>→</mo><mn>0</mn></mrow></munder>"
        "<mfrac><mrow><mi>sin</mi><mo>&ApplyFunction;</mo><mi>x</mi></mrow><mi>x</mi></mfrac><mo>=</mo><mn>1</mn>",
        r"\lim_{x\to0}\frac{\sin x}{x}=1",
    ),
    "integral": (
        "<msubsup><mo>&int;</mo><mn>0</mn><mi>&infin;</mi></msubsup><msup><mi>e</mi><mrow><mo>&minus;</mo><msup><mi>x</mi>"
        "<mn>2</mn></msup></mrow></msup><mspace width='0.167em'/><mi mathvariant='normal'>d</mi><mi>x</mi>",
        r"\int_0^{\infty}e^{-x^2}\,\mathrm{d}x",
    ),
    "sum with a power of a fence": (
        f"<munderover><mo>&#x2211;</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mo>(</mo>{A_OVER_B}"
        "<msup><mo>)</mo><mn>10</mn></msup>",
        r"\sum_{i=1}^n\left(\frac{a}{b}\right)^{10}",
    ),
    "the letter as a sum": ("<munder><mo>Σ</mo><mi>k</mi></munder><mi>Σ</mi>", r"\sum_k\Sigma"),
    "cases": (
        "<mo>|</mo><mi>x</mi><mo>|</mo><mo>=</mo><mrow><mo>{</mo><mtable columnalign='left left'>"
        "<mtr><mtd><mi>x</mi></mtd><mtd><mtext>if&nbsp;</mtext><mi>x</mi><mo>≥</mo><mn>0</mn></mtd></mtr>"
        "<mtr><mtd><mo>-</mo><mi>x</mi></mtd><mtd><mtext>otherwise</mtext></mtd></mtr></mtable>"
        "<mo fence='true' stretchy='true'></mo></mrow>",
        r"|x|=\begin{cases}x&\text{if }x\geq0\\-x&\text{otherwise}\end{cases}",
    ),
    "aligned": (
        "<mtable displaystyle='true' columnalign='right left'><mtr><mtd><mi>y</mi></mtd><mtd><mo>=</mo><mi>a</mi></mtd></mtr>"
        "<mtr><mtd></mtd><mtd><mo>≤</mo><mi>b</mi></mtd></mtr></mtable>",
        r"\begin{aligned}y&=a\\&\leq b\end{aligned}",
    ),
    "a command that MathJax does not know": (r"<msub><mrow><mtext>\CH</mtext></mrow><mi>i</mi></msub>", r"\CH_i"),
    "an index of a prime, as pandoc writes it": ("<mi>f</mi><msub><mi>′</mi><mo>*</mo></msub>", "f'_*"),
    "two primes of one operator": ("<msup><mi>x</mi><mo>′′</mo></msup>", "x''"),
    "bar and line of pandoc": (
        "<mover><mi>s</mi><mo accent='true'>¯</mo></mover><mover><mi>s</mi><mo accent='true'>‾</mo></mover>",
        r"\overline{s}\bar{s}",
    ),
    "numbered equation": (
        "<mtable><mlabeledtr><mtd><mtext>(1)</mtext></mtd><mtd><mi>x</mi></mtd></mlabeledtr></mtable>",
        r"\begin{matrix}x\end{matrix}",
    ),
    "matrix, transposed": (
        f"<mo>[</mo>{TABLE}<msup><mo>]</mo><mi>T</mi></msup>",
        r"\begin{bmatrix}a&b\\c&d\end{bmatrix}^T",
    ),
    "determinant": (f"<mrow><mo>|</mo>{TABLE}<mo>|</mo></mrow>", r"\begin{vmatrix}a&b\\c&d\end{vmatrix}"),
    "determinant in a row": (f"<mi>det</mi><mo>|</mo>{TABLE}<mo>|</mo>", r"\det\begin{vmatrix}a&b\\c&d\end{vmatrix}"),
    "matrix, fenced": (f"<mfenced>{TABLE}</mfenced>", r"\begin{pmatrix}a&b\\c&d\end{pmatrix}"),
    "brace behind a table": (f"{TABLE}<mo>}}</mo>", r"\left.\begin{matrix}a&b\\c&d\end{matrix}\right\}"),
    "row that starts with a bracket": (
        "<mtable><mtr><mtd><mi>a</mi></mtd></mtr><mtr><mtd><mo>[</mo><mi>b</mi><mo>]</mo></mtd></mtr></mtable>",
        r"\begin{matrix}a\\{}[b]\end{matrix}",
    ),
    "cells without a table": ("<mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr>", "ab"),
    "binomial": (
        "<mrow><mo>(</mo><mfrac linethickness='0'><mi>n</mi><mi>k</mi></mfrac><mo>)</mo></mrow><mfrac linethickness='0pt'>"
        "<mi>n</mi><mi>k</mi></mfrac>",
        r"\binom{n}{k}{n\atop k}",
    ),
    "roots": ("<mroot><mi>x</mi><mn>3</mn></mroot><msqrt><mi>a</mi><mi>b</mi></msqrt>", r"\sqrt[3]{x}\sqrt{ab}"),
    "bevelled": ("<mfrac bevelled='true'><mn>1</mn><mrow><mi>a</mi><mi>b</mi></mrow></mfrac>", "1/{ab}"),
    "accents": (
        "<mover><mi>x</mi><mo>^</mo></mover><mover><mrow><mi>A</mi><mi>B</mi></mrow><mo>→</mo></mover><mover accent='true'>"
        "<mi>z</mi><mo>¯</mo></mover><mover><mi>α</mi><mo>˙</mo></mover><munder><mi>u</mi><mo>_</mo></munder>",
        r"\hat{x}\overrightarrow{AB}\bar{z}\dot{\alpha}\underline{u}",
    ),
    "braces below and above": (
        "<munder><munder><mrow><mi>a</mi><mi>b</mi></mrow><mo>⏟</mo></munder><mn>2</mn></munder>"
        "<mover><mover><mi>c</mi><mo>⏞</mo></mover><mtext>one</mtext></mover>",
        r"\underbrace{ab}_2\overbrace{c}^{\text{one}}",
    ),
    "words on arrows and relations": (
        "<mi>A</mi><mover><mo>→</mo><mi>f</mi></mover><mi>B</mi><mover><mo>=</mo><mtext>def</mtext></mover><munder><mi>X</mi><mi>n</mi></munder>",
        r"A\xrightarrow{f}B\overset{\text{def}}{=}\underset{n}{X}",
    ),
    "named functions": (
        "<munder><mo>arg&nbsp;max</mo><mi>θ</mi></munder><mi>rank</mi><mo>&#8289;</mo><mi>A</mi><mo>mod</mo><mi>foo</mi>",
        r"\operatorname*{arg\,max}_{\theta}\operatorname{rank}A\bmod\mathrm{foo}",
    ),
    "alphabets": (
        "<mi>ℝ</mi><mi>𝐱</mi><mi>𝓛</mi><mi>𝔤</mi><mi>𝛂</mi><mi>𝑥</mi><mi mathvariant='double-struck'>Z</mi><mi mathvariant='bold'>α</mi>"
        "<mi mathvariant='script'>L</mi><mi mathvariant='fraktur'>p</mi><mi mathvariant='normal'>∞</mi><mi>ℏ</mi><mi>Δx</mi>",
        r"\mathbb{R}\mathbf{x}\boldsymbol{\mathcal{L}}\mathfrak{g}\boldsymbol{\alpha}x\mathbb{Z}\boldsymbol{\alpha}\mathcal{L}\mathfrak{p}\infty\hbar\Delta x",
    ),
    "primes": (
        "<msup><mi>f</mi><mo>′</mo></msup><msup><msup><mi>f</mi><mo>″</mo></msup><mn>2</mn></msup><msup><mi>x</mi><mn>2</mn></msup><mo>'</mo>"
        "<msubsup><mi>y</mi><mi>i</mi><mo>′</mo></msubsup>",
        r"f'{f''}^2x^2{}'y_i'",
    ),
    "references": ("<mi>&#x00003b1;</mi><mi>&#0000946;</mi><mi>&gamma;</mi>", r"\alpha\beta\gamma"),
    "two primes": ("<msup><mi>f</mi><mrow><mo>′</mo><mo>′</mo></mrow></msup>", "f''"),
    "limit superior": ("<munder><mo>lim\u2006sup</mo><mi>n</mi></munder>", r"\limsup_n"),
    "named spaces": (
        "<mi>a</mi><mspace width='thickmathspace'/><mi>b</mi><mspace width='negativethinmathspace'/><mi>c</mi>",
        r"a\;b\!c",
    ),
    "scripts of scripts": (
        "<msup><msub><mi>x</mi><mi>i</mi></msub><mn>2</mn></msup><msup><msup><mi>x</mi><mi>a</mi></msup><mi>b</mi></msup>"
        "<msup><mrow><mo>(</mo><mi>a</mi><mo>+</mo><mi>b</mi><mo>)</mo></mrow><mn>2</mn></msup><msup><mrow/><mn>3</mn></msup>",
        r"x_i^2{x^a}^b(a+b)^2{}^3",
    ),
    "isotope and tensor": (
        "<mmultiscripts><mi>U</mi><mprescripts/><mn>92</mn><mn>238</mn></mmultiscripts>"
        "<mmultiscripts><mi>R</mi><mi>i</mi><none/><none/><mi>j</mi></mmultiscripts>",
        r"{}_{92}^{238}UR_i{}^j",
    ),
    "fences": (
        f"<mfenced open='[' close=')'><mi>a</mi>{A_OVER_B}</mfenced><mfenced open='&lt;' close='&gt;' separators='|;'><mi>a</mi><mi>b</mi>"
        f"<mi>c</mi></mfenced><mrow><mo>‖</mo>{A_OVER_B}<mo>‖</mo></mrow><mo>]</mo><mi>a</mi><mo>[</mo><mo stretchy='false'>(</mo>{A_OVER_B}<mo>)</mo>",
        r"\left[a,\frac{a}{b}\right)\langle a|b;c\rangle\left\|\frac{a}{b}\right\|]a[(\frac{a}{b})",
    ),
    "text": (
        r"<mtext>50% of $x_1 &amp; {y} ~ ^ \ #</mtext><ms>a</ms><mtext mathvariant='bold'>b</mtext>",
        r"\text{50\% of \$x\_1 \& \{y\} \textasciitilde{} \textasciicircum{} \textbackslash{} \#}"
        r"\text{" + '"a"' + r"}\textbf{b}",
    ),
    "special characters outside of text": (
        r"<mi>%</mi><mo>#</mo><mo>&amp;</mo><mi>_</mi><mi>$</mi><mo>{</mo><mi>~</mi><mo>\</mo><mo>^</mo>",
        r"\%\#\&\_\$\{\sim\backslash\text{\textasciicircum}",
    ),
    "formula inside of text": ("<mtext>if <math><mi>x</mi></math> and <b>y</b></mtext>", r"\text{if }x\text{ and y}"),
    "operators": (
        "<mo>&NotSubset;</mo><mo>&le;</mo><mo>&lt;=</mo><mo>:=</mo><mo>...</mo><mo>&hellip;</mo><mo>&Longrightarrow;</mo><mo>lim</mo>",
        r"\not\subset\leq\leq:=\ldots\ldots\Longrightarrow\lim",
    ),
    "degrees": (
        "<msup><mn>90</mn><mo>∘</mo></msup><mo>,</mo><msup><mn>9</mn><mo>°</mo></msup>",
        r"90^{\circ},9^{\circ}",
    ),
    "numbers side by side": ("<mn>1</mn><mn>2</mn><mi>π</mi><mi>r</mi><mi>π</mi><mn>2</mn>", r"1 2\pi r\pi2"),
    "strikes and boxes": (
        "<menclose notation='updiagonalstrike'><mi>x</mi></menclose><menclose notation='box'><mi>y</mi></menclose><menclose "
        "notation='left'><mi>z</mi></menclose>",
        r"\cancel{x}\boxed{y}z",
    ),
    "spaces": (
        "<mi>a</mi><mspace width='1em'/><mi>b</mi><mspace width='2em'><mi>c</mi><mspace width='-.2em'/><mphantom><mi>d</mi></mphantom>",
        r"a\quad b\qquad c\!",
    ),
    "what is shown": (
        "<semantics><mi>x</mi><annotation-xml encoding='MathML-Content'><ci>y</ci></annotation-xml></semantics><maction selection='2'>"
        "<mi>a</mi><mi>b</mi></maction><mpadded><mstyle><merror><mi>c</mi></merror></mstyle></mpadded>",
        "xbc",
    ),
    "content": ("<apply><plus/><ci>x</ci><cn>1</cn></apply>", "x 1"),
    "names with a prefix": ("<mml:msup><mml:mi>x</mml:mi><m:MN>2</m:MN></mml:msup>", "x^2"),
    "no end tags": ("<mfrac><mi>x<mi>y</mfrac><mo>+<mn>1", r"\frac{x}{y}+1"),
    "no tags": ("x + 1", "x+1"),
    "too few and too many children": (
        "<mfrac><mi>x</mi></mfrac><msup><mi>x</mi><mn>2</mn><mi>y</mi></msup>",
        r"\frac{x}{}x^{2y}",
    ),
}
