"""All texts of the pages: `words/<language>.json`, one flat dictionary for each language, all with the same keys.

The English meanings of codes in the tables come from `sexton.report.meanings`, as in report.html.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from sexton.as_text import count
from sexton.report import meanings

LANGUAGES: Mapping[str, str] = {"en": "English", "zh-CN": "中文"}
COOKIE = "sexton_language"
_REPORT = {"reason": meanings.BROKER_REASONS, "cause": meanings.TOMBSTONE_CAUSES, "load": meanings.OUTCOMES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The texts of one language."""

    language: str
    known: Mapping[str, str]

    def __call__(self, key: str, **values: object) -> str:
        """A text with its values filled in; KeyError for an unknown key."""
        return self.known[key].format(**values) if values else self.known[key]

    def some(self, key: str, number: int, **values: object) -> str:
        """The text of `key` with `number` filled in; if that is 1, the text of `<key>.one`."""
        return self(f"{key}.one" if number == 1 else key, number=count(number), **values)

    def code(self, kind: str, value: str | None) -> str:
        """The meaning of a code in the tables; the code itself if it has none."""
        return "" if value is None else self.known.get(f"{kind}.{value}", value)


@lru_cache(maxsize=len(LANGUAGES))
def texts(language: str) -> Texts:
    """The texts of one of LANGUAGES."""
    found = json.loads(files(__package__).joinpath(f"words/{language}.json").read_text(encoding="utf-8"))
    if language == "en":
        meant = {f"{kind}.{code}": meaning for kind, codes in _REPORT.items() for code, meaning in codes.items()}
        found = {**meant, **found}
    return Texts(language=language, known=found)


def choose(asked: str | None, remembered: str | None, accepted: str | None) -> str:
    """The language of a page: from a link, a cookie, or the browser's preferences; English by default."""
    for language in (asked, remembered):
        if language in LANGUAGES:
            return str(language)
    for part in (accepted or "").split(","):
        wanted = part.partition(";")[0].strip().lower()
        if wanted.startswith("zh"):
            return "zh-CN"
        if wanted.startswith("en"):
            return "en"
    return "en"
