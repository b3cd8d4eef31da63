"""What an answer allows: every way in which it is not the approval of this very thing, by another person, just now."""

import itertools
import json
from dataclasses import replace

import pytest

from sexton.airflow.consent import (
    ANSWER,
    REQUEST,
    Answer,
    NoConsent,
    Request,
    Terms,
    begin_asking,
    consent,
    read,
    write,
)
from sexton.archive.folder import Folder

NOW_MS = 1_795_240_800_000
HOUR_MS = 3_600_000
OPTIONS = {"plan_id": "a" * 64, "sink": "coordinator", "allow_log_sink": False}
REQUEST_OF = Request(
    dag_id="apply_tombstones",
    run_id="manual__1",
    document_id="a" * 64,
    document_sha256="b" * 64,
    options=OPTIONS,
    counts={"tombstones": 3},
    subject="Delete?",
    body="`group`",
)
GIVEN = Answer(
    request_sha256=REQUEST_OF.sha256, chosen=["Approve"], user_id="7", user_name="bea", answered_at_ms=NOW_MS - 5_000
)
TERMS = Terms(approvers=frozenset(), is_self_allowed=False, is_login_required=False, max_age_ms=4 * HOUR_MS)


def decide(answer=GIVEN, request=REQUEST_OF, **changes):
    told = changes.pop("xcom", None if answer is None else answer.to_dict())
    terms = replace(TERMS, **{name: changes.pop(name) for name in list(changes) if name in TERMS.__dataclass_fields__})
    known = {"triggered_by": "ann", "triggered_through": "ui", "now_ms": NOW_MS}
    asked = {"options": OPTIONS, "document_sha256": "b" * 64, **known, **changes}
    return consent(request, answer, told, terms=terms, **asked)


def given(**changes) -> Answer:
    return replace(GIVEN, **changes)


def test_an_approval_by_another_person_just_now() -> None:
    assert decide() == GIVEN


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"answer": None}, "nobody has answered"),
        ({"request": None}, "nobody was asked"),
        ({"xcom": None}, "nobody has answered"),
        ({"answer": given(chosen=["Reject"])}, "the answer is no"),
        ({"answer": given(chosen=[])}, "the answer is no"),
        ({"answer": given(chosen=["Approve", "Reject"])}, "the answer is no"),
        ({"answer": given(chosen=["approve"])}, "the answer is no"),
        ({"answer": given(user_id="", user_name=" ")}, "nobody has answered"),
        ({"answer": given(user_id="ann", user_name="x")}, "who triggered"),
        ({"answer": given(user_name="Ann ")}, "who triggered"),
        ({"triggered_by": "7"}, "who triggered"),
        ({"triggered_by": None}, "not known who triggered"),
        ({"triggered_by": " "}, "not known who triggered"),
        ({"approvers": frozenset({"bea"})}, "may not approve"),
        ({"now_ms": NOW_MS + 4 * HOUR_MS}, "too old"),
        ({"now_ms": NOW_MS - 400_000}, "from the future"),
        ({"document_sha256": "c" * 64}, "has changed since"),
        *(
            ({"is_login_required": True, "triggered_through": how}, "had logged in")
            for how in ("cli", "operator", "test", "asset", "UI ", "")
        ),
        ({"is_login_required": True, "triggered_through": None}, "not known how"),
        ({"options": {**OPTIONS, "sink": "log"}}, "another question"),
        ({"request": replace(REQUEST_OF, run_id="manual__2")}, "another question"),
        ({"request": replace(REQUEST_OF, dag_id="restore_offsets")}, "another question"),
        ({"request": replace(REQUEST_OF, body="`other`")}, "another question"),
        ({"request": replace(REQUEST_OF, document_sha256="c" * 64), "document_sha256": "c" * 64}, "another question"),
    ],
    ids=str,
)
def test_no_consent(changes, reason) -> None:
    with pytest.raises(NoConsent, match=reason):
        decide(**changes)


@pytest.mark.parametrize("name", list(GIVEN.to_dict()))
def test_each_field_of_the_answer_is_held_against_its_xcom(name) -> None:
    """One of the two may be forged: the XCom by whoever may edit XComs, the file by whoever writes files."""
    value = GIVEN.to_dict()[name]
    other = ["Approve", "x"] if isinstance(value, list) else value + 1 if isinstance(value, int) else value + "x"
    with pytest.raises(NoConsent, match="not the one that was given"):
        decide(xcom={**GIVEN.to_dict(), name: other})
    with pytest.raises(NoConsent):
        decide(answer=given(**{name: other}), xcom=GIVEN.to_dict())


@pytest.mark.parametrize(
    "told", [{}, [], "Approve", {"chosen_options": ["Approve"]}, {**GIVEN.to_dict(), "more": 1}], ids=str
)
def test_an_xcom_that_is_no_answer(told) -> None:
    with pytest.raises(NoConsent):
        decide(xcom=told)


def test_who_may_approve_alone_is_said_by_a_setting() -> None:
    assert decide(triggered_by="bea", is_self_allowed=True)
    assert decide(triggered_by=None, is_self_allowed=True)
    assert decide(approvers=frozenset({"7"}))
    with pytest.raises(NoConsent, match="nobody"):
        decide(answer=given(user_id="", user_name=""), is_self_allowed=True)


def test_files_are_private_and_come_back(tmp_path) -> None:
    write(Folder(tmp_path, "a"), REQUEST_OF)
    write(Folder(tmp_path, "a"), GIVEN)
    assert read(Folder(tmp_path, "a"), Request) == REQUEST_OF
    assert read(Folder(tmp_path, "a"), Answer) == GIVEN
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "a").iterdir()} == {0o600}


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"chosen": ["Approve"]}', "\x00"])
def test_files_that_are_something_else(tmp_path, text) -> None:
    (tmp_path / REQUEST).write_text(text)
    (tmp_path / ANSWER).write_text(text)
    assert read(Folder(tmp_path), Request) is None
    assert read(Folder(tmp_path), Answer) is None


def test_every_changed_byte_of_the_files_is_refused_or_means_the_same(tmp_path) -> None:
    """Each byte of the request and of the answer, turned into two others."""
    write(Folder(tmp_path), REQUEST_OF)
    write(Folder(tmp_path), GIVEN)
    refused = 0
    for name in (REQUEST, ANSWER):
        whole = (tmp_path / name).read_bytes()
        for position, mask in itertools.product(range(len(whole) - 1), (1, 4)):
            changed = bytearray(whole)
            changed[position] ^= mask
            (tmp_path / name).write_bytes(changed)
            if _loaded(bytes(changed)) == json.loads(whole):
                continue
            with pytest.raises((NoConsent, TypeError)):
                decide(
                    answer=read(Folder(tmp_path), Answer), request=read(Folder(tmp_path), Request), xcom=GIVEN.to_dict()
                )
            refused += 1
        (tmp_path / name).write_bytes(whole)
    assert refused > 1_000


def _loaded(data: bytes):
    try:
        return json.loads(data)
    except ValueError:
        return None


def test_a_run_asks_one_question(tmp_path) -> None:
    begin_asking(Folder(tmp_path), REQUEST_OF)
    write(Folder(tmp_path), GIVEN)
    begin_asking(Folder(tmp_path), REQUEST_OF)
    assert read(Folder(tmp_path), Answer) is None  # an answer of before a clear is none
    with pytest.raises(NoConsent, match="trigger a new run"):
        begin_asking(Folder(tmp_path), replace(REQUEST_OF, body="another"))
