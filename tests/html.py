"""A page as a browser takes it apart, for tests that say what may be in it."""

from html.parser import HTMLParser

LINKS = frozenset({"href", "src", "action", "hx-get", "hx-post"})
EMPTY = frozenset({"br", "input", "line", "link", "meta", "rect"})
"""Elements that hold nothing and need no end."""


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
