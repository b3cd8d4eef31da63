"""Every language has every word, and the pages ask for no other."""

import re
from pathlib import Path

import pytest

from sexton.tables import TABLES
from sexton.ui.group_queries import ONLY
from sexton.ui.offset_queries import FINDINGS
from sexton.ui.texts import LANGUAGES, choose, texts

TEMPLATES = Path(__file__).resolve().parents[2] / "include" / "sexton" / "ui" / "templates"
KAFKA_WORDS = {
    "committed offset": "已提交的偏移量", "offsets": "偏移量", "log end": "日志末端偏移量", "tombstone": "墓碑消息",
    "retention ": "保留时间", "topic": "主题", "log partition": "日志分区", "subscri": "订阅", "transaction": "事务",
    "coordinator": "协调器", "broker": "broker", "lag": "滞后", "orphan": "孤立", "expire": "期",
}  # fmt: skip
"""As a text has it in English -> the word that Kafka's readers of Chinese know it by."""
NO_WORDS = re.compile(
    r"{\w+}|__consumer_offsets|\w+_tombstones|log_offset|offset_retention|not_coordinator|offsets\.retention\.minutes",
    re.I,
)
ASKED = re.compile(r"""\bt(?:\.some)?\(\s*["']([a-z_.]+[a-z_])["']""")


def test_all_languages_have_the_same_words() -> None:
    keys = {language: set(texts(language).known) for language in LANGUAGES}
    assert keys["en"] == keys["zh-CN"]


@pytest.mark.parametrize("language", [language for language in LANGUAGES if language != "en"])
def test_all_languages_fill_in_the_same_values(language: str) -> None:
    english = texts("en").known
    for key, words in texts(language).known.items():
        assert set(re.findall(r"{(\w+)}", words)) == set(re.findall(r"{(\w+)}", english[key])), key


def test_kafkas_words_in_chinese() -> None:
    """One word for one thing: whoever knows Kafka finds there what documentation in Chinese calls so."""
    chinese = texts("zh-CN").known
    for key, english in texts("en").known.items():
        told = NO_WORDS.sub("", english).lower()
        for word, wanted in KAFKA_WORDS.items():
            if word in told:
                assert wanted in chinese[key], f"{key}: {english!r} is {chinese[key]!r}, without {wanted!r}"


def test_one_thing_has_a_text_where_many_have() -> None:
    asked = {
        key
        for file in TEMPLATES.glob("*.html")
        for key in re.findall(r't\.some\("([a-z_.]+)"', file.read_text("utf-8"))
    }
    assert asked
    assert {f"{key}.one" for key in asked} | asked <= set(texts("en").known)


def test_pages_ask_for_words_that_are_there() -> None:
    asked = {key for file in TEMPLATES.glob("*.html") for key in ASKED.findall(file.read_text("utf-8"))}
    assert len(asked) > 100
    assert asked <= set(texts("en").known)


def test_what_no_page_asks_for_is_not_there() -> None:
    told = "\n".join(file.read_text("utf-8") for folder in (TEMPLATES, TEMPLATES.parent) for file in folder.glob("*.*"))
    kinds = (
        "reason.", "cause.", "load.", "verdict.", "orphan.", "changes.", "event.", "severity.", "error.", "only.",
        "finding.", "outcome.", "action.", "status.", "reset.", "basis.", "lost_cause.", "keep.",
    )  # fmt: skip
    unused = [key for key in texts("en").known if f'"{key}"' not in told and f"'{key}'" not in told]
    assert [key for key in unused if not key.startswith(kinds) and not key.endswith(".one")] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_codes_of_the_tables_have_words(language: str) -> None:
    known = texts(language).known
    verdicts, changes = TABLES["offset_verdicts"], TABLES["offset_changes"]
    codes = {
        "reason": verdicts.column("broker_reason").allowed,
        "verdict": (*verdicts.column("policy_verdict").allowed, *verdicts.column("broker_verdict").allowed),
        "orphan": verdicts.column("orphan").allowed, "changes": verdicts.column("changes_by").allowed,
        "event": changes.column("kind").allowed, "load": TABLES["load_profile"].column("load_outcome").allowed,
        "only": ONLY, "finding": FINDINGS, "keep": verdicts.column("keep_status").allowed,
    }  # fmt: skip
    missing = [
        f"{kind}.{code}" for kind, all_codes in codes.items() for code in all_codes if f"{kind}.{code}" not in known
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("asked", "remembered", "accepted", "chosen"),
    [
        ("zh-CN", "en", "en", "zh-CN"),
        (None, "zh-CN", "en", "zh-CN"),
        (None, None, "fr, zh-TW;q=0.8, en;q=0.7", "zh-CN"),
        (None, None, "de, en-GB", "en"),
        ("../en", "<script>", None, "en"),
    ],
)
def test_choosing(asked: str | None, remembered: str | None, accepted: str | None, chosen: str) -> None:
    assert choose(asked, remembered, accepted) == chosen
