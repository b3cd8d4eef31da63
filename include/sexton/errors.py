"""All errors that a user can see, in one small tree; each says where it happened and how to fix it.

    SextonError                  1  anything else (the only code that a scheduled job retries)
    ├── UsageError               2  an option, a setting or an input is wrong or missing
    │   └── SetupError           2  this machine lacks something: Java, a jar, a free port
    ├── DataQualityFailure       3  a critical expectation failed: nothing was published
    ├── NoCoverage               4  the archive cannot answer for that instant
    ├── UndecodableInput         5  everything was written, but some bytes could not be decoded
    ├── Refused                  6  a guard refused
    ├── DamagedFold              1  a stored fold is invalid; another run writes it again
    ├── BrokerError              1  the cluster did not answer as it should; trying again may help
    └── DownloadError            1  an artifact could not be fetched; trying again may help
    LogError (ValueError)           invalid bytes; becomes a row of undecodable_records, never ends a run
    TransitionError (ValueError)    a group record that the coordinator's replay would throw on

The numbers are the exit codes of the command line and of the Spark jobs.
"""

import traceback

from sexton.uris import uri_without_login, without_login


def printable(text: str) -> str:
    """Return `text` with unprintable characters escaped, so that it cannot break, recolour or reorder log lines."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def printable_traceback() -> str:
    """The traceback of the exception being handled, without logins, and escaped because it may quote any name."""
    return "".join(f"{printable(line)}\n" for line in without_login(traceback.format_exc()).splitlines())


class SextonError(Exception):
    """A failure in one line: what happened, `where`, and what to do (`fix`); logins in URIs are hidden."""

    exit_code = 1

    def __init__(self, message: str, *, where: object = None, fix: str | None = None) -> None:
        self.message = without_login(message)
        self.where = None if where is None else uri_without_login(str(where))
        self.fix = None if fix is None else without_login(fix)
        super().__init__(self.message)

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        mend = f" ({self.fix})" if self.fix else ""
        return " ".join(f"{where}{self.message}{mend}".split())

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message,), {"where": self.where, "fix": self.fix}


class UsageError(SextonError):
    """An option, a setting or an input is wrong or missing."""

    exit_code = 2


class SetupError(UsageError):
    """This machine lacks something: a Java, a jar, a free port."""


class DataQualityFailure(SextonError):
    """A critical expectation failed; nothing was published."""

    exit_code = 3


class NoCoverage(SextonError):
    """The archive cannot answer for that instant."""

    exit_code = 4


class UndecodableInput(SextonError):
    """Some bytes could not be decoded; everything else was still written."""

    exit_code = 5


class Refused(SextonError):
    """A guard refused; nothing was changed."""

    exit_code = 6


class DamagedFold(SextonError):
    """A stored fold is invalid; `where` names the table."""


class BrokerError(SextonError):
    """The cluster could not be reached or did not answer as it should."""


class DownloadError(SextonError):
    """An artifact could not be fetched or is not the one that was pinned."""


EXIT_MEANINGS = {
    UsageError.exit_code: "usage or input is wrong or missing",
    DataQualityFailure.exit_code: "a critical check failed",
    NoCoverage.exit_code: "the archive cannot answer for that instant",
    UndecodableInput.exit_code: "some bytes could not be decoded",
    Refused.exit_code: "a guard refused",
}
"""The meaning of each exit code that a retry would end with again."""


class LogError(ValueError):
    """Invalid bytes: `reason` is a code of undecodable_records, `detail` explains."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}")


class TransitionError(ValueError):
    """A group record on which the coordinator's replay throws, so that loading its log partition fails."""
