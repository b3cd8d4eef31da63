"""What an answer allows: every way in which it is not the approval of this very thing, by another person, just now."""

import itertools
import json

import pytest

from sexton.airflow.consent import (
    FILES,
    ApprovalFolder,
    Asked,
    ConsentAnswer,
    NoConsent,
    Request,
    Trigger,
    Withdrawn,
    begin_asking,
    consent,
    prepare,
    question,
)
from sexton.settings import settings

NOW_MS = 1_795_240_800_000
HOUR_MS = 3_600_000
OPTIONS = {"plan_id": "a" * 64, "sink": "coordinator", "allow_log_sink": False}
RUN = {"dag_id": "apply_tombstones", "run_id": "manual__1"}
REQUEST = Request(
    **RUN, cluster_id="west", document_id="a" * 64, document_sha256="b" * 64, options=OPTIONS,
    counts={"tombstones": 3}, subject="Delete?", body="`group`",
)  # fmt: skip
GIVEN = ConsentAnswer(
    **RUN, request_sha256=REQUEST.sha256, chosen=["Approve"], user_id="7", user_name="bea",
    answered_at_ms=NOW_MS - 5_000,
)  # fmt: skip
TERMS = settings().model_copy(
    update={"approvers": [], "approval_self_allowed": False, "approval_login_required": False}
    | {"approval_max_age_hours": 4}
)


@pytest.fixture
def folder(tmp_path) -> ApprovalFolder:
    return ApprovalFolder(str(tmp_path), **RUN)


def other(document, **changes):
    return document.model_copy(update=changes)


def decide(answer=GIVEN, request=REQUEST, **changes):
    told = changes.pop("xcom", None if answer is None else answer.model_dump())
    terms = TERMS.model_copy(update={name: changes.pop(name) for name in list(changes) if name.startswith("approv")})
    known = {"triggered_by": "ann", "triggered_through": "ui", "now_ms": NOW_MS}
    asked = {"options": OPTIONS, "document_sha256": "b" * 64, "cluster_id": "west", **known, **changes}
    return consent(request, answer, told, terms=terms, **asked)


def given(**changes) -> ConsentAnswer:
    return other(GIVEN, **changes)


def test_an_approval_by_another_person_just_now() -> None:
    assert decide() == GIVEN


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"answer": None}, "nobody has answered"),
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
        ({"approvers": ["bea"]}, "may not approve"),
        ({"now_ms": NOW_MS + 4 * HOUR_MS}, "too old"),
        ({"now_ms": NOW_MS - 400_000}, "from the future"),
        ({"document_sha256": "c" * 64}, "has changed since"),
        ({"cluster_id": "east"}, "has changed since"),
        *(
            ({"approval_login_required": True, "triggered_through": how}, "had logged in")
            for how in ("cli", "operator", "test", "asset", "UI ", "")
        ),
        ({"approval_login_required": True, "triggered_through": None}, "not known how"),
        ({"options": {**OPTIONS, "sink": "log"}}, "another question"),
        ({"request": other(REQUEST, run_id="manual__2")}, "another question"),
        ({"request": other(REQUEST, dag_id="restore_offsets")}, "another question"),
        ({"request": other(REQUEST, body="`other`")}, "another question"),
        ({"request": other(REQUEST, subject="Other?")}, "another question"),
        ({"request": other(REQUEST, cluster_id="east"), "cluster_id": "east"}, "another question"),
        ({"request": other(REQUEST, document_sha256="c" * 64), "document_sha256": "c" * 64}, "another question"),
    ],
    ids=str,
)
def test_no_consent(changes, reason) -> None:
    with pytest.raises(NoConsent, match=reason):
        decide(**changes)


@pytest.mark.parametrize("name", list(GIVEN.model_dump()))
def test_each_field_of_the_answer_is_held_against_its_xcom(name) -> None:
    """One of the two may be forged: the XCom by whoever may edit XComs, the file by whoever writes files."""
    value = GIVEN.model_dump()[name]
    forged = ["Approve", "x"] if isinstance(value, list) else value + 1 if isinstance(value, int) else value + "x"
    with pytest.raises(NoConsent, match="differs from the one in the run's folder"):
        decide(xcom={**GIVEN.model_dump(), name: forged})
    with pytest.raises(NoConsent):
        decide(answer=given(**{name: forged}), xcom=GIVEN.model_dump())


@pytest.mark.parametrize(
    "told", [{}, [], "Approve", {"chosen_options": ["Approve"]}, {**GIVEN.model_dump(), "more": 1}], ids=str
)
def test_an_xcom_that_is_no_answer(told) -> None:
    with pytest.raises(NoConsent):
        decide(xcom=told)


def test_who_may_approve_alone_is_said_by_a_setting() -> None:
    assert decide(triggered_by="bea", approval_self_allowed=True)
    assert decide(triggered_by=None, approval_self_allowed=True)
    assert decide(approvers=["7"])
    with pytest.raises(NoConsent, match="nobody"):
        decide(answer=given(user_id="", user_name=""), approval_self_allowed=True)


DOCUMENTS = [
    REQUEST, GIVEN, Asked(**RUN, request_sha256="c" * 64), Withdrawn(**RUN, request_sha256="c" * 64),
    Trigger(**RUN, triggered_through="ui"),
]  # fmt: skip


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: type(each).__name__)
def test_files_are_private_and_come_back_to_their_run_alone(tmp_path, folder, document) -> None:
    kind = type(document)
    assert folder.read(kind) is None
    assert folder.create(document)
    folder.write(document)
    assert not folder.create(document)
    assert folder.read(kind) == document
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "approval").iterdir()} == {0o600}
    for name in RUN:
        with pytest.raises(NoConsent, match=r"belongs to another run: trigger a new run"):
            ApprovalFolder(str(tmp_path), **{**RUN, name: "x"}).read(kind)


@pytest.mark.parametrize("kind", list(FILES), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"triggered_through": ["ui"]}', "\x00"])
def test_files_that_are_something_else(tmp_path, folder, kind, text) -> None:
    (tmp_path / "approval").mkdir()
    (tmp_path / "approval" / FILES[kind]).write_text(text)
    with pytest.raises(NoConsent, match=r"was changed, or an earlier release wrote it: trigger a new run"):
        folder.read(kind)


def test_every_changed_byte_of_the_files_is_refused_or_means_the_same(tmp_path, folder) -> None:
    """Each byte of the request, of what was asked and of the answer, turned into two others."""
    prepare(folder, REQUEST)
    begin_asking(folder, REQUEST)
    folder.write(GIVEN)
    refused = 0
    for kind in (Request, Asked, ConsentAnswer):
        file = tmp_path / "approval" / FILES[kind]
        whole = file.read_bytes()
        for position, mask in itertools.product(range(len(whole) - 1), (1, 4)):
            changed = bytearray(whole)
            changed[position] ^= mask
            file.write_bytes(changed)
            if _loaded(bytes(changed)) == json.loads(whole):
                continue
            with pytest.raises(NoConsent):
                decide(answer=folder.read(ConsentAnswer), request=question(folder), xcom=GIVEN.model_dump())
            refused += 1
        file.write_bytes(whole)
    assert refused > 1_000
    assert decide(answer=folder.read(ConsentAnswer), request=question(folder)) == GIVEN


def _loaded(data: bytes):
    try:
        return json.loads(data)
    except ValueError:
        return None


def test_a_run_asks_one_question(folder) -> None:
    prepare(folder, REQUEST)
    with pytest.raises(NoConsent, match="nobody was asked"):
        question(folder)
    begin_asking(folder, REQUEST)
    folder.write(GIVEN)
    begin_asking(folder, REQUEST)
    assert folder.read(ConsentAnswer) is None  # an answer of before a clear is none
    prepare(folder, REQUEST)
    assert question(folder) == REQUEST
    with pytest.raises(NoConsent, match="trigger a new run"):
        prepare(folder, other(REQUEST, body="another"))
    assert folder.read(Request) == REQUEST  # what was asked is not overwritten
    prepare(folder, REQUEST)
    for refused in (lambda: question(folder), lambda: begin_asking(folder, REQUEST)):
        with pytest.raises(NoConsent, match="trigger a new run"):
            refused()


def test_a_question_that_is_swapped_while_it_is_asked(folder) -> None:
    """The first task, cleared, has not seen that the question was asked, and writes another one a moment later."""
    prepare(folder, REQUEST)
    begin_asking(folder, REQUEST)
    folder.write(other(REQUEST, body="another"))
    with pytest.raises(NoConsent, match="trigger a new run"):
        question(folder)
    with pytest.raises(NoConsent, match="trigger a new run"):
        begin_asking(folder, other(REQUEST, body="another"))
