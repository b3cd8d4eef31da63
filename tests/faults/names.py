"""Names that mean harm, as bytes: group ids, topics, members and metadata are whatever a client sends.

A name is put together of pieces; each piece knows how Java reads it, which is what every sink has to give back: broken
UTF-8 is U+FFFD, once for each longest piece that could have begun a character.
"""

from dataclasses import dataclass
from random import Random

from tests.report.run_folder import HOSTILE_NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """What stands in the log, and what Java makes of it."""

    raw: bytes
    text: str


LEGAL_TOPIC = "t" * 249
HTML = (
    *("<script>alert(1)</script>", "</script>", "</textarea>", "</title>", "<!--", "-->", "<![CDATA[", "]]>"),
    *(
        '"',
        "'",
        "`",
        "&#39;",
        "&lt;",
        "&quot;",
        ' onmouseover="alert(1)',
        "javascript:alert(1)",
        "<svg/onload=alert(1)>",
    ),
    *("<base href=//x>", "<meta http-equiv=refresh>", "<iframe srcdoc=x>", "%3Cscript%3E", "<b", ">", "expression(1)"),
)
FORMULAS = ("=cmd()|' /C calc'!A0", "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "|calc")
SQL = (
    "'; DROP TABLE groups; --", "' OR '1'='1", "'' OR 1=1", '";--', "\\'", "%", "_", "/*", "*/", "$1", "?", ":id",
    "\\",
)  # fmt: skip
LINES = ("\n", "\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", "\nerror: forged", "\r\nSet-Cookie: a=b")
CONTROLS = ("\x00", "\x07", "\x08", "\x1b[31m", "\x1b]0;title\x07", "\x1b[2J", "\x9b31m", "\x7f", "\x90q", "\x1bP+q")
UNSEEN = (
    *("\u202e", "\u202d", "\u2066", "\u2069", "\u200f", "\u061c", "\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad"),
    *(
        "\u3164", "\u2800", "\u00a0", "\u180e", "\U000e0041", "\ufe0f", "\ufffe", "\ue000", "e" + "\u0301" * 20,
        "\u0301",
    ),
)  # fmt: skip
PATHS = (
    "../", "..\\", "/etc/passwd", "/", "C:\\", "~", "%2e%2e%2f", ".", "..", "file:///etc/passwd", "s3://b/k", "CON",
)  # fmt: skip
TEMPLATES = (
    *("{{ 7 * 7 }}", "{% raw %}", "{# x #}", "${jndi:ldap://x}", "$(id)", "`id`", "#{7*7}", "<%= 7 %>", "%s%n", "{0}"),
    *("{conf}", "{{ var.value.x }}", "{% include '/etc/passwd' %}", "{{", "}}", "{%", "%(name)s", "${PATH}"),
)
MARKDOWN = (
    *("[a](javascript:alert(1))", "![x](http://evil.example/x.png)", "# title", "| a | b |", "~~x~~", "**b**", "> q"),
    *("<http://evil.example>", "www.evil.example", "- [x] done", "[red]markup[/red]", "[link=http://x]y[/link]", "```"),
)
CHAT = ("<!channel>", "<@U1>", "<http://evil.example|the run>", "*bold*", "@everyone", ":bomb:", "&amp;")
SCRIPTS = (
    "шнур", "日本😀", "שלום", "é", "e\u0301", "ﬁ", "ẞ", "İ", "𐍈", "a", "B", "0", "-", " ", "  ", "null", "None", "NaN",
)  # fmt: skip
BROKEN = (
    *((b"\xff", "\ufffd"), (b"\xfe\xfe", "\ufffd\ufffd"), (b"\x80", "\ufffd"), (b"\xc0\xaf", "\ufffd\ufffd")),
    *((b"\xc3", "\ufffd"), (b"\xe2\x82", "\ufffd"), (b"\xf0\x9f\x98", "\ufffd"), (b"\xf5\x80\x80\x80", "\ufffd" * 4)),
    *((b"\xed\xa0\x80", "\ufffd"), (b"\xed\xbf\xbf", "\ufffd"), (b"\xed\xa0\xbd\xed\xb8\x80", "\ufffd\ufffd")),
)
"""Bytes that are no UTF-8, lone surrogates among them, and what Java reads in their place."""
TEXTS = (*HTML, *FORMULAS, *SQL, *LINES, *CONTROLS, *UNSEEN, *PATHS, *TEMPLATES, *MARKDOWN, *CHAT, *SCRIPTS)
LONGEST = 32_767


def hostile_names(random: Random, count: int) -> list[Name]:
    """Every piece alone, the longest names there are, and mixtures until there are `count`; all read differently."""
    fixed = [_plain(text) for text in (*HOSTILE_NAMES, *TEXTS, LEGAL_TOPIC, "x" * 250, "=" + "y" * 32_766)]
    fixed += [Name(raw=b"a" + raw + b"b", text=f"a{text}b") for raw, text in BROKEN]
    found = {name.text: name for name in fixed}
    while len(found) < count:
        name = _mixture(random)
        found.setdefault(name.text, name)
    return list(found.values())[: max(count, len(fixed))]


def _plain(text: str) -> Name:
    return Name(raw=text.encode(), text=text)


def _mixture(random: Random) -> Name:
    raw, text = b"", ""
    for _ in range(random.randint(2, 6)):
        if random.random() < 0.15:
            broken, read = random.choice(BROKEN)
            # A letter on either side: pieces next to each other could make a character together.
            raw, text = raw + b"x" + broken + b"x", f"{text}x{read}x"
        else:
            piece = random.choice(TEXTS)
            raw, text = raw + piece.encode(), text + piece
    return Name(raw=raw, text=text)
