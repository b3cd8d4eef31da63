"""Sends alerts through Airflow's notifiers, each named by the id of a connection.

The setting `notify` (SEXTON_NOTIFY) is a JSON list. An entry that cannot work fails the import of the DAGs.

    slack:CONN_ID                 an incoming webhook of Slack (connection type slackwebhook)
    smtp:CONN_ID:ADDRESS[,...]    a mail
    apprise:CONN_ID               the services that the connection configures
    package.module.name           any other notifier, or a class of notifiers that needs no arguments

A message is plain text, is escaped for each sink, and is never a Jinja template. A notifier named by its import path
gets the message for its own templates, as `alert.severity`, `alert.title`, `alert.text` and `alert.url`.
"""

import copy
import html
import importlib
import importlib.util
import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from airflow.sdk import BaseNotifier

from sexton.errors import SetupError, UsageError, printable
from sexton.uris import without_login

log = logging.getLogger(__name__)

SINKS = ("slack", "smtp", "apprise")
FORMS = "slack:CONN_ID, smtp:CONN_ID:ADDRESS, apprise:CONN_ID or the import path of a notifier"
TIMEOUT_S = 10
_MEANT = {ord(char): f"‹U+{ord(char):04X}›" for char in "<>[]@"}
"""Characters that Apprise's services may take for markup: replaced, so that no mention, link or picture results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An alert: severity, one line, the full text, the address of the run."""

    severity: str
    title: str
    text: str
    url: str


def send(message: Message, entries: Iterable[str]) -> None:
    """Send `message` to every sink. A sink that fails is logged: an alert never fails a task."""
    for entry in entries:
        try:
            sender(entry)(message)
        except Exception as error:
            line = printable(next(iter(str(error).strip().splitlines()), "")[:200])
            log.warning("the alert could not be sent to %s: %s: %s", entry, type(error).__name__, without_login(line))


def sender(entry: str) -> Callable[[Message], object]:
    """Return the function that sends a message to the sink that an entry of the setting names.

    UsageError for an entry that has none of the FORMS, SetupError if its provider is not installed.
    """
    if "." in entry and ":" not in entry:
        notifier = _imported(entry)
        # A copy, because rendering replaces the notifier's templates.
        return lambda message: copy.copy(notifier)({"alert": asdict(message)})
    kind, _, rest = entry.partition(":")
    conn_id, _, to = rest.partition(":")
    addresses = [address.strip() for address in to.split(",") if address.strip()]
    if kind not in SINKS or not conn_id or (kind == "smtp") != bool(addresses):
        raise UsageError(f"no notifier is named {entry!r}", where="SEXTON_NOTIFY", fix=f"write {FORMS}")
    if importlib.util.find_spec(f"airflow.providers.{kind}") is None:
        package = f"apache-airflow-providers-{kind}"
        raise SetupError(
            f"{entry!r} needs {package}, which is not installed",
            where="SEXTON_NOTIFY",
            fix="pip install 'sexton[notify]' wherever Airflow runs, or leave it out",
        )
    # Calling the notifier would render its fields as templates, and a group's name may look like one.
    return lambda message: notifier_of(kind, conn_id, addresses, message).notify({})


def notifier_of(kind: str, conn_id: str, addresses: list[str], message: Message) -> BaseNotifier:
    """Return Airflow's notifier for one message to one sink."""
    if kind == "slack":
        from airflow.providers.slack.notifications.slack_webhook import SlackWebhookNotifier

        return SlackWebhookNotifier(
            slack_webhook_conn_id=conn_id,
            text=_mrkdwn(message),
            unfurl_links=False,
            timeout=TIMEOUT_S,
            retry_handlers=[],  # Slack's handlers log the webhook's address, which is secret
        )
    if kind == "smtp":
        from airflow.providers.smtp.notifications.smtp import SmtpNotifier

        return SmtpNotifier(
            smtp_conn_id=conn_id,
            to=addresses,
            subject=_one_line(message.title),
            html_content=_page(message),
        )
    from airflow.providers.apprise.notifications.apprise import AppriseNotifier

    level: Any = "failure" if message.severity == "error" else "warning"
    body = f"{message.text.translate(_MEANT)}\n{message.url}"
    return AppriseNotifier(apprise_conn_id=conn_id, title=_one_line(message.title), body=body, notify_type=level)


def _imported(path: str) -> BaseNotifier:
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
        notifier = found() if isinstance(found, type) else found
    except Exception as error:  # a third-party module may raise anything
        raise SetupError(f"{path!r} cannot be used: {error}", where="SEXTON_NOTIFY", fix="mend or remove it") from error
    if not isinstance(notifier, BaseNotifier):
        raise UsageError(f"{path!r} is not an Airflow notifier", where="SEXTON_NOTIFY", fix=f"write {FORMS}")
    return notifier


def _mrkdwn(message: Message) -> str:
    """Return Slack's mrkdwn, with `&`, `<` and `>` escaped: mentions, links and entities begin with them."""
    title, text, url = (html.escape(part, quote=False) for part in (message.title, message.text, message.url))
    return f"{title}\n{text}\n<{url}|the run>"


def _page(message: Message) -> str:
    """Return a mail's HTML."""
    text, url = html.escape(message.text).replace("\n", "<br>\n"), html.escape(message.url)
    return f'<p><b>{html.escape(message.title)}</b></p>\n<p>{text}</p>\n<p><a href="{url}">the run</a></p>\n'


def _one_line(text: str) -> str:
    """Return `text` without line breaks, which would begin another mail header."""
    return " ".join(text.split())
