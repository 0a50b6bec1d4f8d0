"""Pages with readers' comments and teasers added to them: `python -m bench._synthetic_gold OUT FOLDER...`.

Few pages with a permissive annotation have comments, and a model that has seen few keeps them as text. So comments,
with texts of other pages, are inserted after the main text of pages of FOLDER, in the markup of common systems;
teasers of other articles are inserted before or after it. The main text stays the gold, and the comments are gold for
`comments: true`. OUT becomes a folder for `gristmill extractor train`. The same folders give the same bytes.
"""

import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from bench._package_gold import PackagedPage, write_pages

from gristmill.kernels.html.block_names import B_HTML
from gristmill.stages.extract.main_text import Extractor
from gristmill_extractor.gold import GoldPage, read_golds
from gristmill_extractor.training import labelled

SETS = frozenset({"scrapinghub", "newspaper3k-weakgold", "newspaper4k-weakgold", "postlight"})
NEVER = 0.15
"""Share of the pages without comments."""
TEASERS = 0.15
"""Share of the pages with teasers before the text, and of those with teasers after it. At 0.4, pages that consist of
short parts lost some of them.
"""
MOST_COMMENTS = 40
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]+")
_NAMES = ("Anna", "Mark", "J.P.", "dave_77", "Olga", "guest", "Kowalski", "tomek", "Wei", "Ivan", "Nikos", "Anonymous")
_WORDS = {
    "says": ["says:", "said...", "wrote:", "schrieb:", "пишет:", "a écrit :", ""],
    "reply": ["Reply", "Reply to this", "odpowiedz", "Antworten", "Ответить", "Répondre", "Responder", "回复", "Like"],
    "title": ["Comments", "{} Comments", "{} Responses", "Komentarze ({})", "Комментарии", "Kommentare", "评论 ({})"],
    "more": ["Read more", "Read more »", "More", "Weiterlesen", "Читать далее", "więcej", "Continue reading"],
}
# {name}, {date}, {text}, {says}, {reply}: what a comment has; {all}, {title}: the whole list.
_COMMENTS = (
    (
        '<div id="comments"><h3 id="comments-title">{title}</h3><ol class="commentlist">{all}</ol></div>',
        '<li class="comment even depth-1"><div class="comment-author vcard"><cite class="fn">{name}</cite> <span '
        'class="says">{says}</span></div><div class="comment-meta commentmetadata"><a href="#c">{date}</a></div>{text}'
        '<div class="reply"><a href="#r">{reply}</a></div></li>',
    ),
    (
        '<div class="comments" id="comments"><h4>{title}</h4><dl id="comments-block">{all}</dl></div>',
        '<dt class="comment-author">{name} {says}</dt><dd class="comment-body">{text}</dd><dd class="comment-footer">'
        "<span class='comment-timestamp'><a href='#c'>{date}</a></span></dd>",
    ),
    (
        '<div class="comments"><h3 class="comments-header">{title}</h3><div class="comments-content">{all}</div></div>',
        '<div class="comment"><div class="comment-content">{text}</div><p class="comment-footer">Posted by: <a '
        'href="#u">{name}</a> | <a href="#c">{date}</a></p></div>',
    ),
    (
        '<div id="dsq-content"><h3>{title}</h3><ul id="dsq-comments">{all}</ul></div>',
        '<li class="dsq-comment"><div class="dsq-comment-header"><cite>{name}</cite> <a href="#c">{date}</a></div><div '
        'class="dsq-comment-body"><div class="dsq-comment-message">{text}</div><a href="#r">{reply}</a></div></li>',
    ),
    (
        '<div id="discussion"><h2 class="title">{title}</h2>{all}</div>',
        '<div class="post odd clearfix"><div class="submitted">{name}, {date}</div><div class="content">{text}</div>'
        '<ul class="links"><li><a href="#r">{reply}</a></li></ul></div>',
    ),
    (
        '<div class="opinie"><h3>{title}</h3>{all}</div>',
        '<div class="opinia"><div>~{name} [{date}]</div>{text}<p><a href="#r">{reply}</a></p></div>',
    ),
    ("<div><p><b>{title}</b></p>{all}</div>", "<div><b>{name}</b> {date}{text}</div>"),
    (
        '<table class="list"><tr><th>{title}</th></tr>{all}</table>',
        "<tr><td><i>{name}</i>, {date}</td></tr><tr><td>{text}</td></tr>",
    ),
    (
        '<section class="reactions"><header>{title}</header>{all}</section>',
        '<article class="reaction"><footer>{name} <time>{date}</time></footer>{text}<button>{reply}</button></article>',
    ),
)
_TEASERS = (
    ('<div class="related"><h3>{title}</h3><ul>{all}</ul></div>', '<li><a href="#t">{name}</a>{text}</li>'),
    (
        '<div class="sidebar"><div class="widget"><h4>{title}</h4>{all}</div></div>',
        '<h5><a href="#t">{name}</a></h5>{text}<a href="#t">{more}</a>',
    ),
    ("<div>{all}</div>", '<div><h3><a href="#t">{name}</a></h3>{text}<p><a href="#t">{more}</a></p></div>'),
    ('<div class="latest">{all}</div>', '<div class="item"><h2><a href="#t">{name}</a></h2><p>{date}</p>{text}</div>'),
)


def sentences(pages: Sequence[GoldPage]) -> list[str]:
    """Sentences of a usual length of all pages."""
    found = (one[0].strip() for page in pages for one in _SENTENCE.finditer(page.text or ""))
    return sorted({one for one in found if 15 <= len(one) <= 300})


def _list(draw: random.Random, forms: Sequence[tuple[str, str]], count: int, text: Callable[[], str]) -> str:
    """A list of comments or teasers in one of the forms."""
    whole, each = draw.choice(forms)
    words = {name: draw.choice(some) for name, some in _WORDS.items()}
    year, number = draw.randint(2003, 2024), draw.randint(1, 9999)
    date = draw.choice(
        ["{y}-{m:02}-{d:02} {h:02}:{n:02}", "{m}/{d}/{y}", "{d}.{m}.{y} {h}:{n:02}", "{h}:{n:02}, {d} May {y}"]
    )
    items = "".join(
        each.format(
            name=draw.choice(_NAMES) if forms is _COMMENTS else escape(" ".join(text().split()[:12])),
            date=date.format(
                y=year, m=draw.randint(1, 12), d=draw.randint(1, 28), h=draw.randint(0, 23), n=number % 60
            ),
            text="".join(f"<p>{escape(text())}</p>" for _ in range(draw.choice([1, 1, 1, 2, 3]))),
            **words,
        )
        for _ in range(count)
    )
    return whole.format(all=items, title=words.pop("title").format(count), **words)


def with_boilerplate(pages: Sequence[GoldPage]) -> Iterator[PackagedPage]:
    """Each page with comments after its text, teasers around it, or both."""
    extractor = Extractor()
    known = sentences(pages)
    for page in pages:
        found = labelled(page, extractor)
        if found is None or not found.content.any():
            continue
        draw = random.Random(page.record_id)
        texts: list[str] = []

        def text(draw: random.Random = draw, texts: list[str] = texts) -> str:
            texts.append(" ".join(draw.choice(known) for _ in range(draw.choice([1, 1, 2, 2, 3, 5]))))
            return texts[-1]

        places = found.blocks.table[found.content, B_HTML]
        html = found.html
        begin, last = int(places.min()), int(places.max())
        comments = b""
        if draw.random() >= NEVER:
            comments = _list(draw, _COMMENTS, int(MOST_COMMENTS ** draw.random()), text).encode()
        readers = "\n".join(texts)
        teasers = [
            _list(draw, _TEASERS, draw.randint(2, 6), text).encode() if draw.random() < TEASERS else b"" for _ in "ab"
        ]
        after = html.find(b"</div>", last)
        after = after + len(b"</div>") if after >= 0 else len(html)
        before = max(html.rfind(b"</div>", 0, begin) + len(b"</div>"), html.find(b"<body"))
        before = before if before >= len(b"</div>") else 0
        changed = html[:before] + teasers[0] + html[before:after] + comments + teasers[1] + html[after:]
        if changed == html:
            continue
        gold = {"set": "synthetic-weakgold", "text": page.text, **({"comments": readers} if readers else {})}
        yield PackagedPage(f"https://{page.domain}/", changed, gold, "utf-8")


if __name__ == "__main__":
    sources = [page for page in read_golds([Path(name) for name in sys.argv[2:]]) if page.set in SETS]
    write_pages(with_boilerplate(sources), Path(sys.argv[1]))
