"""A page as a browser takes it apart, and Markdown as GitHub shows it, for tests that say what may be in them."""

import re
import unicodedata
from html.parser import HTMLParser

from jinja2 import Environment
from markdown_it import MarkdownIt

LINKS = frozenset({"href", "src", "action", "hx-get", "hx-post"})
EMPTY = frozenset({"br", "input", "line", "link", "meta", "rect"})
"""Elements that hold nothing and need no end."""
TAGS = frozenset(
    """
    html head meta title link script style body main a header footer section nav form label span input select option
    button output div h1 h2 h3 p b i small code bdi time ul li ol dl dt dd details summary table thead tbody tr th td
    svg rect line text figure figcaption noscript textarea fieldset legend progress br pre
    """.split()  # noqa: SIM905  # as a list it would be a line each
)
MARKDOWN_TAGS = frozenset({"table", "thead", "tbody", "tr", "th", "td", "code", "strong", "ul", "li", "p"})
PASSIVE = re.compile(r"(?!on)(?!style$)(?!srcdoc$)[a-z0-9-]+")
OWN_LINKS = ("#", "/sexton/", *(f"/dags/{dag}" for dag in ("apply_tombstones", "audit_", "offset_ret", "restore_off")))
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class Html(HTMLParser):
    """Its tags, names of attributes, titles, links, texts, and the text of every code span.

    AssertionError where an element is closed that is not the one last opened: a name could have done that.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.titles: list[str] = []
        self.links: set[str] = set()
        self.texts: list[str] = []
        self.codes: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    @property
    def text(self) -> str:
        """What it says, in words with one space between them."""
        return " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.titles += [value or "" for name, value in attrs if name == "title"]
        self.links |= {value or "" for name, value in attrs if name in LINKS}
        if tag not in EMPTY:
            self._open.append(tag)
        if tag == "code":
            self.codes.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if "code" in self._open:
            self.codes[-1] += data


def unseen(text: str) -> list[str]:
    """Characters that would move, hide or break the text around them."""
    return sorted({ascii(char) for char in text if char != "\n" and unicodedata.category(char) in UNSEEN})


def harmless(text: str, tags: frozenset[str] = TAGS) -> Html:
    """A page of ours in which names are text."""
    page = Html(text)
    assert page.tags <= tags, page.tags - tags
    assert all(PASSIVE.fullmatch(name) for name in page.attributes), page.attributes
    assert all(link.startswith(OWN_LINKS) for link in page.links), page.links
    assert unseen(text) == []
    return page


def harmless_markdown(text: str) -> Html:
    """Markdown that is shown as GitHub's, and once more taken for a template."""
    page = Html(MarkdownIt("gfm-like", {"html": True}).render(text))
    assert page.tags <= MARKDOWN_TAGS, page.tags - MARKDOWN_TAGS
    assert page.attributes == set()
    assert Environment(keep_trailing_newline=True).from_string(text).render() == text
    assert unseen(text) == []
    return page
