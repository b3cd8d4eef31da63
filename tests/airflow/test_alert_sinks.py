"""Alerts reach people through Airflow's own notifiers: the real ones, against servers on the loopback address."""

import asyncio
import importlib.util
import json
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sexton.airflow import alerts, defaults, runs
from sexton.airflow.alert_sinks import sender
from sexton.airflow.alerts import AlertOnFailure, alert_late_run, raise_alert
from sexton.archive.folder import Folder
from sexton.errors import SetupError, UsageError
from sexton.settings import Settings
from tests.airflow import sinks as sinks_module
from tests.airflow.sinks import http_server, smtp_server

EVERY = ["slack:team", "smtp:mail:a@x.org, b@x.org", "apprise:pager"]
EVIL = "<!channel> & <b>{{ 7 * 7 }}</b> *all*"
RUN_ID = "manual__2026-11-21T06:00:00+00:00"
URL = "http://air.flow/dags/offset_retention/runs/manual__2026-11-21T06%3A00%3A00%2B00%3A00"


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Servers of every kind, connections to them, and the settings to use them."""
    with smtp_server() as (mail_port, mails), http_server() as (port, posts):
        plain = {"disable_ssl": True, "disable_tls": True, "from_email": "sexton@x.org", "retry_limit": 0}
        connections = {
            "TEAM": {"conn_type": "slackwebhook", "password": f"http://127.0.0.1:{port}/services/T/B/secret"},
            "MAIL": {"conn_type": "smtp", "host": "127.0.0.1", "port": mail_port, "extra": plain},
            "PAGER": {"conn_type": "apprise", "extra": {"config": {"path": f"json://127.0.0.1:{port}/pager"}}},
        }
        for name, connection in connections.items():
            monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(connection))
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://air.flow/")
        use(monkeypatch, Settings(home=tmp_path, notify=EVERY))
        yield SimpleNamespace(mails=mails.kept, posts=posts, home=tmp_path)


def use(monkeypatch, config: Settings) -> None:
    for module in (alerts, runs, defaults):
        monkeypatch.setattr(module, "settings", lambda: config)


def context(**more):
    ti = SimpleNamespace(dag_id="offset_retention", run_id=RUN_ID, task_id="validate_tables", try_number=1)
    return {"ti": ti, **more}


def texts(told) -> dict[str, str]:
    """The one message of every sink."""
    posts = dict(told.posts)
    ((_, mail),) = told.mails
    pager = posts["/pager"]
    return {
        "slack": posts["/services/T/B/secret"]["text"],
        "smtp": mail.get_body().get_content(),
        "apprise": f"{pager['title']}\n{pager['message']}",
    }


def leave(told, **outcome) -> None:
    """What the job of the task left behind."""
    folder = Folder(runs.run_folder("offset_retention", RUN_ID), "outcome")
    folder.write(json.dumps(outcome).encode(), "validate_tables.json")


def test_everybody_hears_of_a_warning(told) -> None:
    assert raise_alert(context(), severity="warning", message="3 records could not be decoded") is not None
    for text in texts(told).values():
        assert "Sexton warning: offset_retention.validate_tables" in text
        assert "3 records could not be decoded" in text
        assert URL in text
    ((to, mail),) = told.mails
    assert to == ["a@x.org", "b@x.org"]
    assert mail["From"] == "sexton@x.org"
    assert mail["Subject"] == "Sexton warning: offset_retention.validate_tables"
    assert dict(told.posts)["/pager"]["type"] == "warning"


def test_texts_are_escaped_for_their_sink_and_are_no_templates(told) -> None:
    raise_alert(context(), severity="warning", message=f"{EVIL}\nsecond line @all [x](http://x)")
    found = texts(told)
    assert "&lt;!channel&gt; &amp; &lt;b&gt;{{ 7 * 7 }}&lt;/b&gt;" in found["slack"]
    assert "&lt;!channel&gt; &amp; &lt;b&gt;{{ 7 * 7 }}&lt;/b&gt; *all*<br>" in found["smtp"]
    assert not set("<>[]@") & set(found["apprise"]), "each of its services has markup of its own"
    assert "‹U+003C›!channel‹U+003E› & ‹U+003C›b‹U+003E›{{ 7 * 7 }}" in found["apprise"]


@pytest.mark.parametrize("name", ["PAGER", "Pager"])
def test_a_notifier_by_import_path(told, monkeypatch, name) -> None:
    """Its templates say what an alert says, each time anew, and a text is still no template."""
    kept = list[str]()
    monkeypatch.setattr(sinks_module, "KEPT", kept)
    use(monkeypatch, Settings(home=told.home, notify=["slack:team", f"tests.airflow.sinks.{name}"]))
    raise_alert(context(), severity="warning", message=EVIL)
    raise_alert(context(), severity="error", message="the second")
    assert kept == [f"warning {EVIL}\nrun {RUN_ID} {URL}", f"error the second\nrun {RUN_ID} {URL}"]
    assert len(told.posts) == 2


@pytest.mark.parametrize("moving", ["\x1b[2J", "\x9b2J", "\x1b]52;c;x\x07", "\u202e", "\x85Bcc: x@y", "a\r\nBcc: x@y"])
def test_nothing_moves_in_a_log_line_nor_a_message(told, monkeypatch, caplog, moving) -> None:
    """Neither of an error's text nor of a run's id, which whoever triggers it may choose."""
    use(monkeypatch, Settings(home=told.home, notify=EVERY, notify_details=True))
    context_of = context(exception=AirflowException(f"KeyError: {moving}"))
    context_of["ti"].run_id = f"run {moving}"
    AlertOnFailure().notify(context_of)
    lines = [record.getMessage() for record in caplog.records if record.name == alerts.__name__]
    assert [line.isprintable() for line in lines] == [True]
    for text in texts(told).values():
        assert all(line.isprintable() for line in text.replace("\r\n", "\n").split("\n"))
    ((_, mail),) = told.mails
    assert "Bcc" not in mail


def test_a_failed_check_is_told_in_its_own_words_with_its_counts(told) -> None:
    line = "2 critical expectations failed, nothing is published: tombstones: no offset is planned twice: 7"
    leave(told, exit_code=3, error=line)
    AlertOnFailure().notify(context(exception=AirflowFailException(f"a critical expectation failed: {line}")))
    for text in texts(told).values():
        assert "Sexton error" in text
        assert "no offset is planned twice: 7" in text
        assert URL in text


FOREIGN = AirflowException("KeyError: 'group-of-a-customer'")


@pytest.mark.parametrize("outcome", [{}, {"exit_code": 1, "error": str(FOREIGN)}, {"exit_code": 3, "error": "other"}])
def test_foreign_words_stay_inside(told, outcome) -> None:
    """They may name a group."""
    leave(told, **outcome)
    AlertOnFailure().notify(context(exception=FOREIGN))
    for text in texts(told).values():
        assert "customer" not in text
        assert "AirflowException: the log of the task says more" in text
    (file,) = (told.home / "var" / "alerts").glob("*.json")
    assert "customer" in file.read_text()


def test_foreign_words_go_out_where_a_setting_lets_them(told, monkeypatch) -> None:
    use(monkeypatch, Settings(home=told.home, notify=EVERY, notify_details=True))
    AlertOnFailure().notify(context(exception=FOREIGN))
    assert all("group-of-a-customer" in text for text in texts(told).values())


def test_a_late_run_is_told_of(told) -> None:
    run = {"dag_id": "offset_retention", "dag_run_id": RUN_ID}
    asyncio.run(alert_late_run(context={"dag_run": run, "deadline": {}}, minutes=45))
    for text in texts(told).values():
        assert "Sexton error: offset_retention" in text
        assert "not finished 45 minutes after it was queued" in text
        assert URL in text
    (file,) = (told.home / "var" / "alerts").glob("*-run.json")
    assert json.loads(file.read_text())["task_id"] is None


def test_who_cannot_be_reached_fails_nothing(told, monkeypatch, caplog) -> None:
    config = Settings(home=told.home, notify=["slack:nobody", "smoke:signal", *EVERY])
    use(monkeypatch, config)
    monkeypatch.setenv(
        "AIRFLOW_CONN_TEAM", json.dumps({"conn_type": "slackwebhook", "password": "http://127.0.0.1:9/services/canary"})
    )
    caplog.set_level("DEBUG")
    assert raise_alert(context(), severity="warning", message="m") is not None
    assert "canary" not in caplog.text, "a webhook's address is its secret"
    for name in ("slack:nobody", "smoke:signal", "slack:team"):
        assert f"could not be sent to {name}" in caplog.text
    assert len(told.mails) == 1


def test_nobody_is_told_without_the_setting(told, monkeypatch) -> None:
    use(monkeypatch, Settings(home=told.home))
    raise_alert(context(), severity="warning", message="m")
    assert told.mails == told.posts == []


@pytest.mark.parametrize(
    "entry", ["", "slack", "slack:", "smtp:mail", "smtp:mail:", "apprise:pager:x@y", "irc:c", "team"]
)
def test_an_entry_that_says_nothing_is_refused(entry) -> None:
    with pytest.raises(UsageError, match="smtp:CONN_ID:ADDRESS"):
        sender(entry)


@pytest.mark.parametrize("kind", ["slack:c", "smtp:c:a@x.org", "apprise:c"])
def test_a_provider_that_is_not_installed_is_named_when_the_dag_is_loaded(kind, monkeypatch, tmp_path) -> None:
    use(monkeypatch, Settings(home=tmp_path, notify=[kind]))
    defaults.default_args()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=rf"apache-airflow-providers-{kind.split(':')[0]}.*sexton\[notify\]"):
        defaults.default_args()
