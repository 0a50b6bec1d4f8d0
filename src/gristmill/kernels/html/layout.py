"""Tables for cutting a page into blocks: the elements that are boxes, and the hints of class names."""

import numpy as np

from gristmill.kernels.html.names import fnv

_H = "h1 h2 h3 h4 h5 h6"
_SETS = {
    "BOX": "address article aside blockquote body button caption center dd details dialog dir div dl dt fieldset "
    f"figcaption figure footer form {_H} header hgroup legend li listing main menu nav ol p pre section summary table "
    "tbody td tfoot th thead tr ul xmp",
    "SKIPPED": "applet audio canvas datalist iframe noembed noframes noscript object rp script select style svg "
    "template textarea title video",
    "ENDS_PARAGRAPH": "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption "
    f"figure footer form {_H} header hgroup hr li listing main menu nav ol p pre section summary table tbody td tfoot "
    "th thead tr ul",
    "CELL": "caption td th",
    "BARRIER": "caption table td th",
    "LISTS": "dir menu ol ul",
    "HEADINGS": _H,
    "EMPHASIS": "b strong",
    "SLANTED": "em i",
    "MONOSPACE": "code kbd samp tt",
    "VERBATIM": "listing pre xmp",
    "SPACED": "applet audio canvas iframe input object select svg textarea video",
    "NESTED": "object svg template",
    "OTHERS": "a br hr html img m:math math mjx-container mml:math q rt ruby span sub sup",
}
BOX_NAMES = ["", *sorted({name for names in _SETS.values() for name in names.split()})]
(
    BOX,
    SKIPPED,
    ENDS_PARAGRAPH,
    CELL,
    BARRIER,
    LISTS,
    HEADINGS,
    EMPHASIS,
    SLANTED,
    MONOSPACE,
    VERBATIM,
    SPACED,
    NESTED,
) = (1 << bit for bit in range(len(_SETS) - 1))
BOX_FLAGS = np.zeros(len(BOX_NAMES), np.int64)
for _bit, _members in enumerate(_SETS.values()):
    BOX_FLAGS[[BOX_NAMES.index(name) for name in _members.split()]] |= 1 << _bit
(BOX_A, BOX_BODY, BOX_BR, BOX_BUTTON, BOX_DD, BOX_DIV, BOX_DL, BOX_DT, BOX_HR, BOX_HTML, BOX_IMG, BOX_LI, BOX_MATH) = (
    map(BOX_NAMES.index, ["a", "body", "br", "button", "dd", "div", "dl", "dt", "hr", "html", "img", "li", "math"])
)
(BOX_MJX, BOX_OL, BOX_P, BOX_Q, BOX_RT, BOX_RUBY, BOX_SCRIPT, BOX_SPAN, BOX_STYLE, BOX_SVG, BOX_TABLE, BOX_TBODY) = map(
    BOX_NAMES.index, ["mjx-container", "ol", "p", "q", "rt", "ruby", "script", "span", "style", "svg", "table", "tbody"]
)
(BOX_TD, BOX_TFOOT, BOX_TH, BOX_THEAD, BOX_TITLE, BOX_TR, BOX_BLOCKQUOTE, BOX_M_MATH, BOX_MML_MATH, BOX_RP) = map(
    BOX_NAMES.index, ["td", "tfoot", "th", "thead", "title", "tr", "blockquote", "m:math", "mml:math", "rp"]
)
BOX_PRE, BOX_SUB, BOX_SUP = map(BOX_NAMES.index, ["pre", "sub", "sup"])
BOX_HASHES = np.array([fnv(name) for name in BOX_NAMES], np.uint64)
BOX_SHIFT = np.uint64(next(s for s in range(52) if len({fnv(k) >> s & 4095 for k in BOX_NAMES}) == len(BOX_NAMES)))
BOX_SLOTS = np.zeros(4096, np.uint8)
BOX_SLOTS[(BOX_HASHES >> BOX_SHIFT & np.uint64(4095)).astype(np.int64)] = np.arange(len(BOX_NAMES))

ANCESTRY = [
    "article",
    "aside",
    "blockquote",
    "button",
    "dl",
    "figure",
    "footer",
    "form",
    "header",
    "li",
    "main",
    "nav",
    "pre",
    "section",
    "table",
    "td",
]
"""Ancestors of a block that are features of the model, one bit each."""
ANCESTRY_BIT = np.zeros(len(BOX_NAMES), np.int64)
for _bit, _name in enumerate(ANCESTRY):
    ANCESTRY_BIT[BOX_NAMES.index(_name)] = 1 << _bit
for _heading in _H.split():
    ANCESTRY_BIT[BOX_NAMES.index(_heading)] = 1 << len(ANCESTRY)

# Words of class names and ids, by subject. They were chosen among those that hundreds of sites use; the model learns
# the weight of each group.
HINTS = {
    "content": "content contents body text txt story copy maincontent articlebody entrycontent postcontent bodytext "
    "articletext storybody postbody inhalt contenido contenu copytext articlecontent fulltext richtext prose",
    "article": "article articles post posts hentry entry news blog single node artikel noticia publication essay",
    "main": "main primary page center middle hauptinhalt",
    "title": "title headline heading subtitle subheading kicker deck lead intro summary excerpt standfirst dek",
    "header": "header head top masthead branding brand logo topbar kopf",
    "footer": "footer foot bottom copyright colophon legal privacy imprint impressum contentinfo disclaimer",
    "nav": "nav navigation menu navbar submenu breadcrumb breadcrumbs topnav subnav mainnav tabs tab pagination pager "
    "dropdown crumb crumbs sitemap directory toc paging",
    "neighbours": "prev previous next older newer",
    "side": "sidebar side aside rail secondary complementary leftcol rightcol gutter tertiary",
    "right": "right left",
    "comment": "comment comments disqus commentlist commentform respond reply replies kommentar kommentare commentary "
    "livefyre responses discussion guestbook",
    "share": "share social sharing facebook twitter fb pinterest linkedin addthis addtoany whatsapp follow tweet like "
    "instagram youtube reddit sharedaddy googleplus bookmark digg delicious stumbleupon",
    "related": "related recommended recommendations popular latest recent more most trending outbrain taboola teaser "
    "teasers promo promos featured also similar recirc readmore suggestions",
    "ad": "ad ads advert adverts advertisement advertising sponsor sponsored sponsors dfp gpt leaderboard anzeige "
    "werbung adsense doubleclick affiliate",
    "form": "form search login newsletter subscribe signup button btn input submit register field searchform "
    "subscription registration captcha donate",
    "meta": "meta date byline author time published posted info avatar bio dateline timestamp vcard authors pubdate "
    "postmeta entrymeta updated",
    "tags": "tags tag category categories topics cat archive archives keywords labels taxonomy",
    "widget": "widget widgets module box panel block portlet textwidget card tile",
    "cookie": "cookie cookies consent gdpr ccpa onetrust cookiebot cookieconsent cookienotice cookiebar didomi",
    "popup": "popup modal overlay dialog notice alert notification lightbox paywall",
    "hidden": "hidden hide none invisible skip noprint noscreen offscreen visuallyhidden",
    "media": "caption image img photo gallery video player slide slider thumbnail thumb media figure credit carousel "
    "slideshow picture photos images audio",
    "list": "list item items links link linklist results listing",
    "user": "user profile account rating vote votes review reviews price cart shop product buy score karma stats",
    "tools": "tools toolbar print email mail rss feed permalink icon icons actions utility controls edit editsection "
    "headerlink",
    "forum": "thread message quote signature topic forum postbody posting answer question",
    "notes": "references reflist footnote footnotes infobox navbox catlinks notes citation sources bibliography",
    "code": "code highlight syntax sourcecode codehilite terminal console sig signature synopsis memproto",
}
HINT_HIDDEN = 1 << list(HINTS).index("hidden")
LIST_FORMS = b"1aAiI"
"""The values of `type` of a numbered list."""
FORM_BIT, DEPTH_BIT, DEPTHS = 26, 20, 63
"""Places in the column MARKER."""
UNCOUNTED = 1 << 20
HINT_INVISIBLE = 1 << 30
"""Invisible by its style or the attribute hidden; hints of names are one of the groups."""
HINT_COOKIE = 1 << list(HINTS).index("cookie")
HINT_COMMENT = 1 << list(HINTS).index("comment")
_HINT_SLOTS = 4096


def _hint_tables() -> tuple[np.ndarray, np.ndarray]:
    """Returns a table by the hash of a word, and one by the hash of the reversed word: hash, then bits."""
    forward, backward = (np.zeros((_HINT_SLOTS, 2), np.uint64) for _ in range(2))
    # Each group of words has one bit.
    for group, words in enumerate(HINTS.values()):
        # A word may be in several groups.
        for word in words.split():
            # Endings are looked up by the reversed word.
            for table, key in ((forward, word), (backward, word[::-1])):
                code = fnv(key)
                slot = (code ^ code >> 29) % _HINT_SLOTS
                while table[slot, 1] and int(table[slot, 0]) != code:
                    slot = (slot + 1) % _HINT_SLOTS
                table[slot, 0] = code
                table[slot, 1] |= np.uint64(1 << group)
    return forward, backward


HINT_WORDS, HINT_ENDINGS = _hint_tables()
HINT_MASK = _HINT_SLOTS - 1

(
    B_START,
    B_STOP,
    B_HTML,
    B_KIND,
    B_ELEMENT,
    B_CHARS,
    B_WORDS,
    B_LINK_CHARS,
    B_LINKS,
    B_ENDS,
    B_COMMAS,
    B_DIGITS,
    B_UPPER,
    B_SHORT,
    B_SIGNS,
    B_BREAKS,
    B_IMAGES,
    B_TAGS,
    B_STRONG,
    B_HINTS,
    B_MARKER,
    B_ROW,
    B_CELL,
    B_QUOTE,
    B_VERBATIM,
    B_FIRST,
    B_LAST,
    B_UNITS,
    B_CAPITALS,
    BLOCK_COLUMNS,
) = range(30)
"""Columns of a table of blocks, one row each:
START, STOP   where its text is, in the buffer of texts
HTML          where it begins in the page
KIND          its innermost box, by number in BOX_NAMES
ELEMENT       the same, by row in the table of elements
CHARS         characters that are no white space
WORDS         between white space; two characters of Chinese or Japanese are one
LINK_CHARS    characters inside links
LINKS         links
ENDS          sentence marks at the end of a word
COMMAS        commas, colons and semicolons
DIGITS        digits
UPPER         letters in upper case
SHORT         words of at most three characters
SIGNS         | / > » › · • © and their like
BREAKS        <br>
IMAGES        <img> since the block before it
TAGS          tags since the block before it
STRONG        characters inside <b> and <strong>
HINTS         what class names of the inline elements in it tell
MARKER        form of the number (LIST_FORMS) << 26 | depth of lists << 20 |
              number of the item + 1 (0: unordered) << 1 | 1 if it is the first of its item; or 0
ROW, CELL     the table row that it is in, and which of its cells, from 1 on (from UNCOUNTED on: of no row); 0: none
QUOTE         block quotations around it
VERBATIM      1: white space counts
FIRST, LAST   kinds of its first and last character (block_text.py)
UNITS         characters of Chinese and Japanese, syllables of Tibetan
CAPITALS      words that begin in upper case"""

(E_PARENT, E_KIND, E_HINTS, E_ALL_HINTS, E_ANCESTRY, E_FIRST, E_LAST, E_DEPTH, E_CLASS, E_PATH, ELEMENT_COLUMNS) = (
    range(11)
)
"""Columns of a table of elements, those with text in them:
PARENT          its row
KIND            number in BOX_NAMES
HINTS           what its class, id and role tell; ALL_HINTS: and those of the elements around it
ANCESTRY        bits of ANCESTRY
FIRST, LAST     its blocks
DEPTH           boxes around it
CLASS           a hash of its class
PATH            a hash of its name, and of name and class of the two boxes around it"""
