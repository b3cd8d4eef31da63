"""What an approver reads: what has to be there is there, and a hostile name is nothing but a name in any sink."""

import string
from typing import Any

from sexton.execution.restore.restore_plan import OffsetValue, RestorePlan, RestoreRow, Then, What
from sexton.plans.plan import Plan
from sexton.report.approval_page import GROUPS_SHOWN, OFFSETS_SHOWN, plan_text, restore_text, sentence_span, span
from tests.html import harmless_markdown
from tests.report.run_folder import HOSTILE_NAMES
from tests.report.test_plan_page import PLAN_ID, plan_of

MORE_HOSTILE = (
    "`code` ends ``here``", "``````", "| a | b |", "\\", "a\\|b", "http://evil.example/x", "www.evil.example",
    "mailto:x@evil.example", "<http://evil.example>", "![x](http://evil.example/x.png)", "[x]: http://evil.example",
    "# heading", "- [x] done", "~~struck~~ **bold** _it_", "&#60;b&#62;", "{{ var.value.get('x') }}",
    "{% include '/etc/passwd' %}", "{# gone #}", "{{{{", "$(id)", "a" * 249 + "`",
)  # fmt: skip
PROBES = [
    "\ud800",  # nothing that a table could hold
    *(f"{before}{char}{char}{after}" for char in string.punctuation for before in ("", "a ") for after in ("", " b")),
    *(f"{one}{two}name{two}{one}" for one in string.punctuation for two in string.punctuation[::2]),
    *(f"{one}{one}{two}" for one in "<>{}`|[]()&*_~!#%\\" for two in "<>{}`|[]()&*_~!#%\\"),
]
NAMES = (*HOSTILE_NAMES, *MORE_HOSTILE, *PROBES)


def a_plan(lost: dict[str, int], **options: Any) -> Plan:
    found, tombstones, undo = plan_of(lost, **options)
    return Plan(record=found.record, sha256="cd" * 32, folder="/archive/plan", tombstones=tombstones, undo=undo)


def a_restore(*names: str, **options: Any) -> RestorePlan:
    then = OffsetValue(committed_offset=7, leader_epoch=None, metadata="")
    rows = [
        RestoreRow(
            group_id=name, topic=name, partition=0, log_partition=0, what=What.RESTORE, then=Then(value=then), now=None,
            put=then,
        )
        for name in names
    ]  # fmt: skip
    return RestorePlan(**{"cluster_id": "c", "source": "ledger", "rows": tuple(rows), **options})


def test_there_are_names_enough() -> None:
    assert len(set(NAMES)) > 900


def test_every_name_is_one_code_span() -> None:
    for name in NAMES:
        (code,) = harmless_markdown(f"| a |\n|---|\n| {span(name)} |\n").codes
        assert code == span(name)[1:-1]
        (sentence,) = harmless_markdown(f"- {sentence_span(f'{name} of ours')}\n").codes
        assert sentence.endswith("of ours") or len(name) > 300


def test_names_that_differ_are_shown_differently() -> None:
    shown = {span(name): name for name in NAMES if len(name) < 50}
    assert len(shown) == len({name for name in NAMES if len(name) < 50})


def test_a_plan_says_what_it_takes() -> None:
    text = plan_text(a_plan({"billing": 3, "web": 12}, deleted=("billing",)))
    lines = text.splitlines()
    assert f"| plan | `{PLAN_ID}` |" in lines
    assert f"| sha256 | `{'cd' * 32}` |" in lines
    assert "| groups affected | 2 of 77 |" in lines
    assert lines.index("| `web` | 12 | 0 |") < lines.index("| `billing` | 3 | 1 |")
    assert "Over the limits" not in text


def test_much_is_cut_and_counted() -> None:
    groups = {f"group-{number:03d}": 1 for number in range(GROUPS_SHOWN + 7)}
    assert "and 7 more" in plan_text(a_plan(groups))
    assert "and 9 more" in restore_text(a_restore(*(f"g{number}" for number in range(OFFSETS_SHOWN + 9))))


def test_a_restore_says_what_would_be_written() -> None:
    text = restore_text(a_restore("billing"))
    assert "| `billing` | `billing` | 0 | - | 7 | restore |" in text.splitlines()
    assert "cannot bring back" in text
    assert "| would be written | 1 of 1 offsets |" in text.splitlines()
