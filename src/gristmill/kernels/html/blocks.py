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
from gristmill.kernels.html import attributes, boxes, layout, names
from gristmill.kernels.html import inline as inline_tags
from gristmill.kernels.html.block_text import (
    T_BEGIN,
    T_CHARS,
    T_GAP,
    end_line,
    end_word,
    take_text,
)
from gristmill.kernels.html.bounds import seek, skip_declaration, skip_raw
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
                state[boxes.S_HTML] = begin - page
            # Between two lines that are boxes, white space is only in the page.
            verbatim = state[boxes.S_VERBATIM] > 0 and state[boxes.S_CODE_LINES] != 1
            state[boxes.S_END] = take_text(source, begin, at, text, state[boxes.S_END], tally, verbatim)
        if at >= stop or not is_markup:
            continue
        if not is_tag:
            at = skip_declaration(data, words, at, stop, False)
            continue
        at += 2 if closing else 1
        name = at
        code = names.HASH_BASIS
        # The hash of the tag's name, in lower case.
        while at < stop and not names.BYTE_CLASS[data[at]] & (names.BYTE_SPACE | names.BYTE_SLASH | names.BYTE_GREATER):
            code = (code ^ names.BYTE_LOWER[data[at]]) * names.HASH_PRIME
            at += 1
        size = at - name
        slot = layout.BOX_SLOTS[np.int64(code >> layout.BOX_SHIFT & np.uint64(4095))]
        kind: Any = np.int64(slot) if layout.BOX_HASHES[slot] == code else np.int64(0)
        wanted = not closing and kind > 0
        if wanted:
            for field in range(attributes.ATTRIBUTES):
                noted[field] = 0
        at = attributes.read_attributes(data, words, at, stop, noted, wanted)
        if at >= stop:
            break  # a tag without an end is not a tag
        at += 1
        state[boxes.S_TAGS] += 1
        if kind == 0:
            continue
        if kind == layout.BOX_DIV:
            if wanted and noted[attributes.A_MATH] == attributes.TOOLTIP and not missing[layout.BOX_DIV]:
                end = end_of_nested(data, words, at, stop, name, size)
                missing[layout.BOX_DIV] = end >= stop
                if end < stop:
                    at = seek(data, words, end, stop, 0x3E) + 1
                    continue
            # Code whose lines are boxes is like <pre>.
            if state[boxes.S_CODE_LINES]:
                state[boxes.S_CODE_LINES] += -1 if closing else 1
                kind = np.int64(0 if state[boxes.S_CODE_LINES] else layout.BOX_PRE)
                if kind == 0:
                    state[boxes.S_END] = end_line(text, state[boxes.S_END], tally)
                    continue
            elif wanted and noted[attributes.A_MATH] == attributes.CODE_LINES:
                state[boxes.S_CODE_LINES] = 1
                kind = np.int64(layout.BOX_PRE)
        flags = layout.BOX_FLAGS[kind]
        if flags & layout.SPACED:  # an element that is drawn as a separate box separates the words around it
            end_word(tally)
            tally[T_GAP] = 1
        if flags & layout.BOX:
            if state[boxes.S_VERBATIM] and not flags & (layout.VERBATIM | layout.BARRIER):
                # A line of code that is a separate box.
                state[boxes.S_END] = end_line(text, state[boxes.S_END], tally)
                continue
            boxes.flush(state, tally, stack, blocks, text)
            if closing:
                boxes.close(state, stack, counts, elements, kind)
            else:
                boxes.imply(state, stack, counts, elements, kind)
                boxes.push(state, tally, stack, counts, elements, noted, kind)
                if kind in (layout.BOX_DIV, layout.BOX_P) and noted[attributes.A_MATH] == attributes.MATH_WORD:
                    state[boxes.S_MATH] |= (
                        boxes.TEX_IN_TEXT if inline_tags.begins_formula(source, at, stop) else boxes.WITHOUT_TEX
                    )
        elif flags & layout.SKIPPED:
            if closing or missing[kind] == 1 or (kind == layout.BOX_SVG and data[at - 2] == SLASH):
                continue
            if kind == layout.BOX_RP:  # its end tag may be missing, and its content is a parenthesis
                at = seek(data, words, at, stop, 0x3C)
                continue
            end, sure = skip_raw(data, words, at, stop, np.int64(code))
            if end >= stop:
                missing[kind] = 1
                if kind in (layout.BOX_SCRIPT, layout.BOX_STYLE):
                    break
                continue
            if not missing[kind] and (flags & layout.NESTED or (kind == layout.BOX_SCRIPT and not sure)):
                if kind == layout.BOX_SCRIPT:
                    last = end_of_script(data, words, at, stop)
                else:
                    last = end_of_nested(data, words, at, stop, name, size)
                if last < stop:
                    end = last
                else:
                    missing[kind] = 2
            if kind == layout.BOX_SCRIPT and noted[attributes.A_TYPE] == inline_tags.MATH_TEX:
                state[boxes.S_END] = inline_tags.put_math(
                    source, at, end, text, state[boxes.S_END], tally, noted[attributes.A_START] > 0
                )
            elif kind == layout.BOX_SCRIPT and noted[attributes.A_TYPE] == inline_tags.MATH_MML:
                state[boxes.S_MATH] |= boxes.WITHOUT_TEX
            elif kind == layout.BOX_TITLE and not state[boxes.S_TITLE_END]:
                state[boxes.S_TITLE], state[boxes.S_TITLE_END] = at, end
            at = end
        elif kind == layout.BOX_BR:
            if state[boxes.S_END] > tally[T_BEGIN]:
                end_word(tally)
                if text[state[boxes.S_END] - 1] == LF and not state[boxes.S_VERBATIM]:
                    breaks = state[boxes.S_BREAKS] + 1
                    boxes.flush(state, tally, stack, blocks, text)
                    state[boxes.S_BREAKS] = breaks
                else:
                    text[state[boxes.S_END]] = LF
                    state[boxes.S_END] += 1
                    state[boxes.S_BREAKS] += 1
            tally[T_GAP] = 0
        elif kind == layout.BOX_HR:
            boxes.flush(state, tally, stack, blocks, text)
        elif kind == layout.BOX_IMG:
            state[boxes.S_IMAGES] += 1
            first, last = noted[attributes.A_ALT], noted[attributes.A_ALT_END]
            is_formula = last > first and (
                noted[attributes.A_MATH] in (attributes.MATH_IMAGE, attributes.MATH_WORD)
                or inline_tags.is_delimited(source, first, last)
            )
            if wanted and is_formula and not missing[layout.BOX_IMG]:
                state[boxes.S_END] = inline_tags.put_math(source, first, last, text, state[boxes.S_END], tally, False)
        elif kind in (layout.BOX_MATH, layout.BOX_MJX):
            if closing or missing[kind] or data[at - 2] == SLASH or (kind == layout.BOX_MATH and at < math_end):
                continue
            end = mjx_end if kind == layout.BOX_MJX else at
            if at >= end:
                end, _ = skip_raw(data, words, at, stop, np.int64(code))
            if end >= stop:
                missing[kind] = 1
                continue
            if kind == layout.BOX_MJX:
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
                    first, last = inline_tags.data_latex(source, name, end)
                    display = noted[attributes.A_DISPLAY] & 0xFFFFFFFF == inline_tags.DISPLAY_TRUE
                    state[boxes.S_END] = inline_tags.put_math(
                        source, first, last, text, state[boxes.S_END], tally, display
                    )
                continue
            first, last = noted[attributes.A_ALT], noted[attributes.A_ALT_END]
            if first >= last:
                first, last = inline_tags.data_latex(source, name, at)
            if first >= last:
                first, last = inline_tags.annotation(data, words, at, end)
            if first < last:
                display = noted[attributes.A_DISPLAY] & 0xFFFFFFFFFF == inline_tags.DISPLAY_BLOCK
                if tally[T_CHARS] == 0 and layout.BOX_FLAGS[stack[boxes.K_KIND, state[boxes.S_TOP] - 1]] & layout.CELL:
                    # LaTeXML cuts an alignment into cells of a table, each with this command.
                    display |= inline_tags.has_displaystyle(source, first, last)
                state[boxes.S_END] = inline_tags.put_math(source, first, last, text, state[boxes.S_END], tally, display)
                at = end
                missing[layout.BOX_IMG] = 1  # a picture of a formula is next to its markup
            else:
                state[boxes.S_MATH] |= boxes.WITHOUT_TEX
                math_end = end
        elif kind in (layout.BOX_M_MATH, layout.BOX_MML_MATH):
            state[boxes.S_MATH] |= boxes.WITHOUT_TEX
        elif kind in (layout.BOX_SUB, layout.BOX_SUP):
            inline_tags.script(state, tally, kind, closing, text)
        elif kind == layout.BOX_SPAN:
            if wanted:
                state[boxes.S_HINTS] |= noted[attributes.A_HINTS]
                if noted[attributes.A_MATH] == attributes.MATH_WORD:
                    state[boxes.S_MATH] |= (
                        boxes.TEX_IN_TEXT if inline_tags.begins_formula(source, at, stop) else boxes.WITHOUT_TEX
                    )
                elif noted[attributes.A_MATH] == attributes.CLASSIFIER:
                    inline_tags.put_colon(state, tally, text)
                # KaTeX may write only its boxes, without the MathML that has the formula.
                picture = noted[attributes.A_MATH] == attributes.MATH_JAX or (
                    noted[attributes.A_MATH] == attributes.MATH_KATEX and missing[layout.BOX_IMG]
                )
                picture |= noted[attributes.A_MATH] == 0 and noted[attributes.A_HINTS] & layout.HINT_INVISIBLE != 0
                if picture and not missing[layout.BOX_SPAN]:
                    end = end_of_nested(data, words, at, stop, name, size)
                    missing[layout.BOX_SPAN] = end >= stop
                    at = at if end >= stop else end
        elif kind != layout.BOX_HTML:
            if wanted:
                state[boxes.S_HINTS] |= noted[attributes.A_HINTS]
            inline_tags.inline(state, tally, noted, kind, closing, source, text)
    boxes.flush(state, tally, stack, blocks, text)
    boxes.pop_to(state, stack, counts, elements, 1)
    elements[0, layout.E_LAST] = state[boxes.S_BLOCKS]
