"""Cuts a page into blocks of text in one pass over its bytes, without a tree.

A block is text between the edges of boxes: a paragraph, a heading, a list item, a cell, the loose text of a <div>. The
scan keeps a stack of open boxes. For each block it notes the counts and the box; for each box with text, its name, the
hints of its class, and its blocks. End tags that the standard implies (`<p>`, `<li>`, `<td>`) are added. Inline
elements are not separate: a link or bold text ends with its end tag or with its box.

Work is linear in the size of a page. Boxes deeper than MAX_DEPTH count as part of the box around them.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.html.attributes import (
    A_ALT,
    A_ALT_END,
    A_DISPLAY,
    A_HINTS,
    A_MATH,
    A_START,
    A_TYPE,
    ATTRIBUTES,
    CLASSIFIER,
    CODE_LINES,
    MATH_IMAGE,
    MATH_JAX,
    MATH_KATEX,
    MATH_WORD,
    TOOLTIP,
    read_attributes,
)
from gristmill.kernels.html.block_names import (
    BARRIER,
    BOX,
    BOX_BR,
    BOX_DIV,
    BOX_FLAGS,
    BOX_HASHES,
    BOX_HR,
    BOX_HTML,
    BOX_IMG,
    BOX_M_MATH,
    BOX_MATH,
    BOX_MJX,
    BOX_MML_MATH,
    BOX_P,
    BOX_PRE,
    BOX_RP,
    BOX_SCRIPT,
    BOX_SHIFT,
    BOX_SLOTS,
    BOX_SPAN,
    BOX_STYLE,
    BOX_SUB,
    BOX_SUP,
    BOX_SVG,
    BOX_TITLE,
    CELL,
    E_LAST,
    HINT_INVISIBLE,
    NESTED,
    SKIPPED,
    SPACED,
    VERBATIM,
)
from gristmill.kernels.html.block_text import (
    T_BEGIN,
    T_CHARS,
    T_GAP,
    end_line,
    end_word,
    take_text,
)
from gristmill.kernels.html.bounds import seek, skip_declaration, skip_raw
from gristmill.kernels.html.boxes import (
    K_KIND,
    S_BLOCKS,
    S_BREAKS,
    S_CODE_LINES,
    S_END,
    S_HINTS,
    S_HTML,
    S_IMAGES,
    S_MATH,
    S_TAGS,
    S_TITLE,
    S_TITLE_END,
    S_TOP,
    S_VERBATIM,
    TEX_IN_TEXT,
    WITHOUT_TEX,
    close,
    flush,
    imply,
    pop_to,
    push,
)
from gristmill.kernels.html.inline import (
    DISPLAY_BLOCK,
    DISPLAY_TRUE,
    MATH_MML,
    MATH_TEX,
    annotation,
    begins_formula,
    data_latex,
    has_displaystyle,
    inline,
    is_delimited,
    put_colon,
    put_math,
    script,
)
from gristmill.kernels.html.names import (
    BYTE_CLASS,
    BYTE_GREATER,
    BYTE_LOWER,
    BYTE_SLASH,
    BYTE_SPACE,
    HASH_BASIS,
    HASH_PRIME,
)
from gristmill.kernels.html.skipped import end_of_nested, end_of_script
from gristmill.kernels.memory import borrow, view
from gristmill.kernels.text.ascii import EXCLAMATION, LF, LOWER_A, QUESTION, SLASH


@njit(nogil=True, cache=True)
def cut_page(
    data: np.ndarray,
    words: np.ndarray,
    at: int,
    stop: int,
    state: np.ndarray,
    tally: np.ndarray,
    stack: np.ndarray,
    counts: np.ndarray,
    missing: np.ndarray,
    noted: np.ndarray,
    blocks: np.ndarray,
    elements: np.ndarray,
    texts: np.ndarray,
) -> None:
    source, text = view(data), view(texts)
    data, words, state, tally, stack = borrow(data), borrow(words), borrow(state), borrow(tally), borrow(stack)
    counts, missing, noted = borrow(counts), borrow(missing), borrow(noted)
    blocks, elements = borrow(blocks), borrow(elements)
    # `missing`: 1 for elements that have no end tag after this point, 2 for those with too few.
    page = at
    math_end = mjx_end = at  # of the outermost formula without TeX: it is not searched again inside
    # Each turn takes the text up to the next tag, and then the tag.
    while at < stop:
        begin = at
        at = seek(data, words, at, stop, 0x3C)
        sign = data[at + 1] if at + 1 < stop else 0
        closing = sign == SLASH
        letter = sign
        if closing:
            letter = data[at + 2] if at + 2 < stop else 0
        is_tag = (letter | 0x20) >= 0x61 and (letter | 0x20) <= 0x7A
        is_markup = is_tag or sign == EXCLAMATION or sign == QUESTION or (closing and letter != 0)
        if at < stop and not is_markup:
            at += 1
        if at > begin:
            if tally[T_CHARS] == 0:
                state[S_HTML] = begin - page
            # Between two lines that are boxes, white space is only in the page.
            verbatim = state[S_VERBATIM] > 0 and state[S_CODE_LINES] != 1
            state[S_END] = take_text(source, begin, at, text, state[S_END], tally, verbatim)
        if at >= stop or not is_markup:
            continue
        if not is_tag:
            at = skip_declaration(data, words, at, stop, False)
            continue
        at += 2 if closing else 1
        name = at
        code = HASH_BASIS
        # The hash of the tag's name, in lower case.
        while at < stop and not BYTE_CLASS[data[at]] & (BYTE_SPACE | BYTE_SLASH | BYTE_GREATER):
            code = (code ^ BYTE_LOWER[data[at]]) * HASH_PRIME
            at += 1
        size = at - name
        slot = BOX_SLOTS[np.int64(code >> BOX_SHIFT & np.uint64(4095))]
        kind: Any = np.int64(slot) if BOX_HASHES[slot] == code else np.int64(0)
        wanted = not closing and kind > 0
        if wanted:
            for field in range(ATTRIBUTES):
                noted[field] = 0
        at = read_attributes(data, words, at, stop, noted, wanted)
        if at >= stop:
            break  # a tag without an end is not a tag
        at += 1
        state[S_TAGS] += 1
        if kind == 0:
            continue
        if kind == BOX_DIV:
            if wanted and noted[A_MATH] == TOOLTIP and not missing[BOX_DIV]:
                end = end_of_nested(data, words, at, stop, name, size)
                missing[BOX_DIV] = end >= stop
                if end < stop:
                    at = seek(data, words, end, stop, 0x3E) + 1
                    continue
            # Code whose lines are boxes is like <pre>.
            if state[S_CODE_LINES]:
                state[S_CODE_LINES] += -1 if closing else 1
                kind = np.int64(0 if state[S_CODE_LINES] else BOX_PRE)
                if kind == 0:
                    state[S_END] = end_line(text, state[S_END], tally)
                    continue
            elif wanted and noted[A_MATH] == CODE_LINES:
                state[S_CODE_LINES] = 1
                kind = np.int64(BOX_PRE)
        flags = BOX_FLAGS[kind]
        if flags & SPACED:  # an element that is drawn as a separate box separates the words around it
            end_word(tally)
            tally[T_GAP] = 1
        if flags & BOX:
            if state[S_VERBATIM] and not flags & (VERBATIM | BARRIER):
                # A line of code that is a separate box.
                state[S_END] = end_line(text, state[S_END], tally)
                continue
            flush(state, tally, stack, blocks, text)
            if closing:
                close(state, stack, counts, elements, kind)
            else:
                imply(state, stack, counts, elements, kind)
                push(state, tally, stack, counts, elements, noted, kind)
                if kind in (BOX_DIV, BOX_P) and noted[A_MATH] == MATH_WORD:
                    state[S_MATH] |= TEX_IN_TEXT if begins_formula(source, at, stop) else WITHOUT_TEX
        elif flags & SKIPPED:
            if closing or missing[kind] == 1 or (kind == BOX_SVG and data[at - 2] == SLASH):
                continue
            if kind == BOX_RP:  # its end tag may be missing, and its content is a parenthesis
                at = seek(data, words, at, stop, 0x3C)
                continue
            end, sure = skip_raw(data, words, at, stop, np.int64(code))
            if end >= stop:
                missing[kind] = 1
                if kind in (BOX_SCRIPT, BOX_STYLE):
                    break
                continue
            if not missing[kind] and (flags & NESTED or (kind == BOX_SCRIPT and not sure)):
                if kind == BOX_SCRIPT:
                    last = end_of_script(data, words, at, stop)
                else:
                    last = end_of_nested(data, words, at, stop, name, size)
                if last < stop:
                    end = last
                else:
                    missing[kind] = 2
            if kind == BOX_SCRIPT and noted[A_TYPE] == MATH_TEX:
                state[S_END] = put_math(source, at, end, text, state[S_END], tally, noted[A_START] > 0)
            elif kind == BOX_SCRIPT and noted[A_TYPE] == MATH_MML:
                state[S_MATH] |= WITHOUT_TEX
            elif kind == BOX_TITLE and not state[S_TITLE_END]:
                state[S_TITLE], state[S_TITLE_END] = at, end
            at = end
        elif kind == BOX_BR:
            if state[S_END] > tally[T_BEGIN]:
                end_word(tally)
                if text[state[S_END] - 1] == LF and not state[S_VERBATIM]:
                    breaks = state[S_BREAKS] + 1
                    flush(state, tally, stack, blocks, text)
                    state[S_BREAKS] = breaks
                else:
                    text[state[S_END]] = LF
                    state[S_END] += 1
                    state[S_BREAKS] += 1
            tally[T_GAP] = 0
        elif kind == BOX_HR:
            flush(state, tally, stack, blocks, text)
        elif kind == BOX_IMG:
            state[S_IMAGES] += 1
            first, last = noted[A_ALT], noted[A_ALT_END]
            is_formula = last > first and (
                noted[A_MATH] in (MATH_IMAGE, MATH_WORD) or is_delimited(source, first, last)
            )
            if wanted and is_formula and not missing[BOX_IMG]:
                state[S_END] = put_math(source, first, last, text, state[S_END], tally, False)
        elif kind in (BOX_MATH, BOX_MJX):
            if closing or missing[kind] or data[at - 2] == SLASH or (kind == BOX_MATH and at < math_end):
                continue
            end = mjx_end if kind == BOX_MJX else at
            if at >= end:
                end, _ = skip_raw(data, words, at, stop, np.int64(code))
            if end >= stop:
                missing[kind] = 1
                continue
            if kind == BOX_MJX:
                mjx_end = end
                inner = at
                while inner < end:  # MathJax 3 writes MathML for screen readers into its container
                    inner = seek(data, words, inner, end, 0x3C)
                    if (
                        inner + 5 < end
                        and data[inner + 1] == 0x6D
                        and data[inner + 2] == LOWER_A
                        and data[inner + 3] == 0x74
                    ):
                        break
                    inner += 1
                at = min(inner, end)
                if inner >= end:
                    first, last = data_latex(source, name, end)
                    display = noted[A_DISPLAY] & 0xFFFFFFFF == DISPLAY_TRUE
                    state[S_END] = put_math(source, first, last, text, state[S_END], tally, display)
                continue
            first, last = noted[A_ALT], noted[A_ALT_END]
            if first >= last:
                first, last = data_latex(source, name, at)
            if first >= last:
                first, last = annotation(data, words, at, end)
            if first < last:
                display = noted[A_DISPLAY] & 0xFFFFFFFFFF == DISPLAY_BLOCK
                if tally[T_CHARS] == 0 and BOX_FLAGS[stack[K_KIND, state[S_TOP] - 1]] & CELL:
                    # LaTeXML cuts an alignment into cells of a table, each with this command.
                    display |= has_displaystyle(source, first, last)
                state[S_END] = put_math(source, first, last, text, state[S_END], tally, display)
                at = end
                missing[BOX_IMG] = 1  # a picture of a formula is next to its markup
            else:
                state[S_MATH] |= WITHOUT_TEX
                math_end = end
        elif kind in (BOX_M_MATH, BOX_MML_MATH):
            state[S_MATH] |= WITHOUT_TEX
        elif kind in (BOX_SUB, BOX_SUP):
            script(state, tally, kind, closing, text)
        elif kind == BOX_SPAN:
            if wanted:
                state[S_HINTS] |= noted[A_HINTS]
                if noted[A_MATH] == MATH_WORD:
                    state[S_MATH] |= TEX_IN_TEXT if begins_formula(source, at, stop) else WITHOUT_TEX
                elif noted[A_MATH] == CLASSIFIER:
                    put_colon(state, tally, text)
                # KaTeX may write only its boxes, without the MathML that has the formula.
                picture = noted[A_MATH] == MATH_JAX or (noted[A_MATH] == MATH_KATEX and missing[BOX_IMG])
                picture |= noted[A_MATH] == 0 and noted[A_HINTS] & HINT_INVISIBLE != 0
                if picture and not missing[BOX_SPAN]:
                    end = end_of_nested(data, words, at, stop, name, size)
                    missing[BOX_SPAN] = end >= stop
                    at = at if end >= stop else end
        elif kind != BOX_HTML:
            if wanted:
                state[S_HINTS] |= noted[A_HINTS]
            inline(state, tally, noted, kind, closing, source, text)
    flush(state, tally, stack, blocks, text)
    pop_to(state, stack, counts, elements, 1)
    elements[0, E_LAST] = state[S_BLOCKS]
