"""URIs with logins, however they are written: none of it is shown, and what is none stays as it is."""

import string
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sexton.errors import SextonError, UsageError
from sexton.uris import below, secrets_of, split_login, uri_without_login, with_login_of, without_login

PRINTABLE = [char for char in map(chr, range(0x20, 0x250)) if char.isprintable()]
TOKEN = [char for char in PRINTABLE if not char.isspace()]
USERS = st.text(string.ascii_letters + string.digits + "+/_-.", min_size=1, max_size=20)
PLACES = ("bucket/a", "bucket/a/b?region=eu&scheme=http", "127.0.0.1:5432/lake?ssl=true", "bucket")
SCHEMES = ("s3", "gs", "jdbc:postgresql", "https", "abfs")


def keys(letters: list[str]) -> st.SearchStrategy[str]:
    """Secrets that cannot be in a URI by chance."""
    return st.text(letters, min_size=1, max_size=30).map(lambda text: f"Zq{text}qZ")


def shown_whole(key: str, shown: str) -> bool:
    """Whether any half of a secret is shown."""
    return any(part in shown for part in (key, quote(key, safe=""), key[: len(key) // 2 + 1], key[len(key) // 2 :]))


@given(keys(PRINTABLE), USERS, st.sampled_from(SCHEMES), st.sampled_from(PLACES), st.booleans())
@example(key="Zqse/cr@etqZ", user="KEY", scheme="s3", where="bucket/a", enc=False)
@example(key="Zq?x=1@yqZ", user="K/E", scheme="s3", where="bucket/a", enc=False)
@example(key="Zqp ss'\"qZ", user="KEY", scheme="jdbc:postgresql", where="bucket", enc=False)
def test_no_key_is_shown_of_a_uri(key: str, user: str, scheme: str, where: str, enc: bool) -> None:
    uri = f"{scheme}://{user}:{quote(key, safe='') if enc else key}@{where}"
    shown = uri_without_login(uri)
    assert shown == f"{scheme}://***@{where}"
    assert uri_without_login(shown) == shown
    error = UsageError("gone", where=uri, fix="look")
    assert not shown_whole(key, f"{error} {error.where} {error!r}")
    assert key in secrets_of(uri)


@given(keys(TOKEN), USERS, st.sampled_from(SCHEMES), st.sampled_from(PLACES), st.booleans())
@example(key="Zqse/cr@etqZ", user="KEY", scheme="s3", where="bucket/a", enc=False)
def test_no_key_is_shown_of_a_sentence(key: str, user: str, scheme: str, where: str, enc: bool) -> None:
    uri = f"{scheme}://{user}:{quote(key, safe='') if enc else key}@{where}"
    for text in (f"Cannot parse URI: '{uri}' due to a letter", f"{uri}: gone", f"a {uri} and {uri}"):
        assert not shown_whole(key, without_login(text))
        assert not shown_whole(key, str(SextonError(text, fix=text)))


@given(key=keys(TOKEN), name=st.sampled_from(["password", "secret_key", "sas_token", "sig", "X-Amz-Signature"]))
def test_an_option_that_is_a_secret_is_not_shown(key: str, name: str) -> None:
    value = quote(key, safe="")
    uri = f"jdbc:postgresql://host/x?ssl=true&{name}={value}&a=b"
    assert uri_without_login(uri) == f"jdbc:postgresql://host/x?ssl=true&{name}=***&a=b"
    assert not shown_whole(key, without_login(f"{uri}: no"))
    assert {key, value} <= set(secrets_of(uri))


@pytest.mark.parametrize(
    "text, shown",
    [
        ("s3://key:secret@bucket/a: gone", "s3://***@bucket/a: gone"),
        ("s3://KEY:se/cr@et@bucket/a: gone", "s3://***@bucket/a: gone"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("/plain/a:b@c", "/plain/a:b@c"),
        ("see https://host/page; write to a@b", "see https://host/page; write to a@b"),
    ],
)
def test_logins_are_left_out(text: str, shown: str) -> None:
    assert without_login(text) == shown


@pytest.mark.parametrize(
    "uri, login, bare",
    [
        ("s3://KEY:se%2Fcr@bucket/a?x=y", "KEY:se%2Fcr", "s3://bucket/a?x=y"),
        ("postgresql://u:se/cr@et@host:1/db?user=a@b", "u:se/cr@et", "postgresql://host:1/db?user=a@b"),
        ("postgresql://host/db?user=a@b&password=c@d", None, "postgresql://host/db?user=a@b&password=c@d"),
        ("s3://bucket/a@b", None, "s3://bucket/a@b"),
        ("/var/archive", None, "/var/archive"),
        ("hdfs://user@host:9000/x", "user", "hdfs://host:9000/x"),
    ],
)
def test_a_login_apart(uri: str, login: str | None, bare: str) -> None:
    assert split_login(uri) == (login, bare)


@pytest.mark.parametrize(
    ("uri", "wanted"),
    [
        ("/srv/runs", "/srv/runs/a/b"),
        ("/srv/runs/", "/srv/runs/a/b"),
        ("s3://bucket/runs", "s3://bucket/runs/a/b"),
        ("s3://k:s@bucket/runs?region=eu&scheme=http", "s3://k:s@bucket/runs/a/b?region=eu&scheme=http"),
    ],
)
def test_what_is_below(uri: str, wanted: str) -> None:
    assert below(uri, "a", "b") == wanted


@pytest.mark.parametrize("own", ["s3://k:s@bucket/runs?region=eu", "s3://k:s@bucket/runs/", "s3://b/runs?secret_key=s"])
def test_a_login_comes_back(own: str) -> None:
    for place in (own, below(own, "a", "b")):
        assert with_login_of(own, uri_without_login(place)).rstrip("/") == place.rstrip("/")
    for other in ("/srv/runs", "s3://bucket/others", "s3://***@bucket/runs-of-others", "s3://k:t@bucket/runs/a"):
        assert with_login_of(own, other) == other


def test_where_there_is_no_login_none_comes() -> None:
    assert with_login_of("/srv/runs", "/srv/runs/a") == "/srv/runs/a"
    assert with_login_of("s3://bucket/runs?region=eu", "s3://bucket/runs/a") == "s3://bucket/runs/a"
