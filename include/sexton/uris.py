"""Splits URIs with a login (`s3://key:secret@bucket`), and hides the login.

Logins are often not quoted, and AWS keys may contain a `/`: `s3://KEY:se/cr@et@bucket/a`. RFC 3986 reads this as
another host without a login, so here a login extends to the last `@` that can end it. In doubt more than the login is
hidden.
"""

import re
from urllib.parse import unquote

_SECRET_OPTION = re.compile(
    r"([?&;][^=&;?\s]*(?:passw|secret|token|credential|signature|_key|apikey|\bsig)[^=&;?\s]*=)([^&;\s]*)",
    re.IGNORECASE,
)
_IN_TEXT = re.compile(r"(?<=://)\S*@")
_OPTIONS = re.compile(r"\?[\w.-]+=[^?]*$")
_HIDDEN = "***"


def without_login(text: str) -> str:
    """A sentence with the logins and secret options of its URIs hidden.

    In a sentence a URI ends at white space; `uri_without_login` is exact for a URI alone.
    """
    bare = _IN_TEXT.sub(lambda found: f"{_HIDDEN}@" if _is_login(found[0][:-1]) else found[0], text)
    return _SECRET_OPTION.sub(rf"\1{_HIDDEN}", bare)


def uri_without_login(uri: str) -> str:
    """A URI with its login hidden; a plain path is unchanged."""
    scheme, mark, rest = uri.partition("://")
    login, at, place = rest.rpartition("@")
    if not mark or not at or not _is_login(login):
        login, place = "", rest
    shown = _SECRET_OPTION.sub(rf"\1{_HIDDEN}", place)
    return f"{scheme}{mark}{_HIDDEN}@{shown}" if login else f"{scheme}{mark}{shown}"


def split_login(uri: str) -> tuple[str | None, str]:
    """The login of a URI as written (None if there is none), and the URI without it, with its options."""
    scheme, mark, rest = uri.partition("://")
    options = _OPTIONS.search(rest)
    head, query = (rest[: options.start()], options[0]) if options else (rest, "")
    login, at, place = head.rpartition("@")
    if not mark or not at or not _is_login(login):
        return None, uri
    return login, f"{scheme}{mark}{place}{query}"


def below(uri: str, *names: str) -> str:
    """The URI or path of `names` below the folder `uri`; options of the URI stay at its end."""
    head, query = _split_options(uri)
    return "/".join((head.rstrip("/"), *names)) + query


def with_login_of(own: str, shown: str) -> str:
    """`shown` with the login of `own`, if `shown` is `own` without the login, or below it; else `shown` unchanged."""
    head, query = _split_options(own)
    bare, _ = _split_options(uri_without_login(own))
    rest, _ = _split_options(shown)
    bare, head = bare.rstrip("/"), head.rstrip("/")
    if uri_without_login(own) == own or not f"{rest}/".startswith(f"{bare}/"):
        return shown
    return head + rest.removeprefix(bare) + query


def _split_options(uri: str) -> tuple[str, str]:
    options = _OPTIONS.search(uri) if "://" in uri else None
    return (uri[: options.start()], options[0]) if options else (uri, "")


def secrets_of(uri: str) -> list[str]:
    """The secrets of a URI, as written and unquoted: its login, in parts, and secret options."""
    _, mark, rest = uri.partition("://")
    login, at, _ = rest.rpartition("@")
    found = [split_login(uri)[0] or ""]
    if mark and at and _is_login(login):
        found.append(login)
    parts = [part for each in found for part in (*each.split(":", 1), each.rpartition(":")[2])]
    parts += [value for _, value in _SECRET_OPTION.findall(uri)]
    written = [part for part in dict.fromkeys(parts) if part]
    return list(dict.fromkeys([*written, *map(unquote, written)]))


def _is_login(text: str) -> bool:
    """Whether the text before an `@` may be a login: the `@` of `s3://bucket/a@b` belongs to the path."""
    return bool(text) and (":" in text or "/" not in text or "@" in text.partition("/")[0])
