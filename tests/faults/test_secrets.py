"""Secrets of every kind, handed over in every way that there is, while everything that can fail does: none is told.

What needs a broker and an Airflow that work is in tests/integration/test_secrets.py.
"""

import logging
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sexton import cli, doctor
from sexton.job_params import REQUESTS
from sexton.kafka.session import ClusterSession
from sexton.lake.catalog import Lake, open_lake
from sexton.pipeline import job
from sexton.runs.source import open_archive
from sexton.settings import PROJECT_ROOT
from sexton.uris import uri_without_login
from tests.environment import with_settings
from tests.faults.test_stalls import hung_up, nonsense, server, silent
from tests.ui.worlds import PREFIX, app_over

pytestmark = pytest.mark.thorough

MODULES = "org.apache.kafka.common.security"
KINDS = (
    *("sasl.password", "jaas password", "jaas clientSecret", "ssl.key.password", "pem key", "pem truststore"),
    *("oauth secret", "oauth secret of librdkafka", "oauth extension", "oauth url", "unknown setting", "protocol"),
    *("archive url", "catalog url", "catalog query", "catalog password", "s3 secret", "s3 token", "proxy url"),
    *("broken file", "truststore password", "environment"),
)
"""One canary of each."""


@pytest.fixture(scope="module")
def canaries() -> dict[str, str]:
    return {kind: f"canary{number:02d}-{secrets.token_hex(8)}" for number, kind in enumerate(KINDS)}


@dataclass
class Watched:
    """What was said, and the folder in which files may have been left."""

    folder: Path
    capfd: pytest.CaptureFixture[str]
    log: pytest.LogCaptureFixture

    def assert_nothing_told(self, canaries: dict[str, str], *, where: str) -> None:
        out, err = self.capfd.readouterr()
        said = out + err + self.log.text
        told = [kind for kind, canary in canaries.items() if canary in said]
        assert told == [], f"{where}: {said[:2_000]}"
        for path in self.folder.rglob("*"):
            if path.is_file() and "given" not in path.relative_to(self.folder).parts:
                data = path.read_bytes()
                assert [kind for kind, canary in canaries.items() if canary.encode() in data] == [], f"{where}: {path}"


@pytest.fixture
def watched(tmp_path: Path, capfd: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(doctor, "CONNECT_TIMEOUT_MS", 300)
    monkeypatch.setattr(doctor, "RETRY_FOR_S", 0)
    short = {"connect_timeout_ms": 300, "request_timeout_ms": 300, "retry_for_s": 0}
    monkeypatch.setattr(ClusterSession.__init__, "__kwdefaults__", short)
    monkeypatch.setattr("sexton.kafka.oauth.DEADLINE_S", 0.5)
    monkeypatch.setattr("sexton.kafka.oauth.ATTEMPT_S", 0.4)
    monkeypatch.setattr(doctor, "check_jars", lambda *_: doctor.Check(name="jars", state="ok", found=""))
    monkeypatch.setattr(doctor, "check_spark", lambda *_: doctor.Check(name="Spark", state="ok", found=""))
    caplog.set_level(logging.INFO)
    (tmp_path / "given").mkdir()
    return Watched(folder=tmp_path, capfd=capfd, log=caplog)


# --- settings of a client, each wrong in its own way

Given = dict[str, str]


def plain(c: Given, folder: Path) -> Given:
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"} | {
        "sasl.password": c["sasl.password"]
    }


def scram_jaas(c: Given, folder: Path) -> Given:
    jaas = f'{MODULES}.scram.ScramLoginModule required username="u" password="{c["jaas password"]}";'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas}


def other_jaas(c: Given, folder: Path) -> Given:
    return scram_jaas(c, folder) | {"sasl.jaas.config": f'x.Krb5LoginModule required password="{c["jaas password"]}";'}


def unquoted_jaas(c: Given, folder: Path) -> Given:
    jaas = f"{MODULES}.plain.PlainLoginModule required username=u password={c['jaas password']};"
    return scram_jaas(c, folder) | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}


def oauth(c: Given, folder: Path) -> Given:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:9/token",
        "sasl.oauthbearer.client.credentials.client.id": "me",
        "sasl.oauthbearer.client.credentials.client.secret": c["oauth secret"],
        "sasl.oauthbearer.extensions": f"key={c['oauth extension']}",
    }


def oauth_of_librdkafka(c: Given, folder: Path) -> Given:
    known = {name: value for name, value in oauth(c, folder).items() if "credentials" not in name}
    return known | {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": c["oauth secret of librdkafka"],
    }


def oauth_jaas(c: Given, folder: Path) -> Given:
    jaas = (
        f'{MODULES}.oauthbearer.OAuthBearerLoginModule required clientId="me" clientSecret="{c["jaas clientSecret"]}"'
    )
    known = {name: value for name, value in oauth(c, folder).items() if "credentials" not in name}
    return known | {"sasl.jaas.config": f'{jaas} nonsense="1";'}


def oauth_url(c: Given, folder: Path) -> Given:
    return oauth(c, folder) | {"sasl.oauthbearer.token.endpoint.url": f"https://me:{c['oauth url']}@idp.example/token"}


def broken_pem(c: Given, folder: Path) -> Given:
    """Files that are no PEM, and hold secrets."""
    key, store = folder / "given" / "key.pem", folder / "given" / "ca.pem"
    key.write_text(f"-----BEGIN PRIVATE KEY-----\n{c['pem key']}\n-----END PRIVATE KEY-----\n")
    store.write_text(f"-----BEGIN CERTIFICATE-----\n{c['pem truststore']}\n-----END CERTIFICATE-----\n")
    return {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(store),
        "ssl.keystore.location": str(key),
        "ssl.key.password": c["ssl.key.password"],
    }


def only_key(c: Given, folder: Path) -> Given:
    found = broken_pem(c, folder)
    del found["ssl.truststore.location"]
    return found


def inline_pem(c: Given, folder: Path) -> Given:
    """Kafka's own way to hand over a key in a setting, which is none of ours."""
    return {
        "security.protocol": "SSL",
        "ssl.keystore.key": c["pem key"],
        "ssl.truststore.password": c["truststore password"],
    }


def unknown_setting(c: Given, folder: Path) -> Given:
    return {"sasl.pasword": c["unknown setting"]}


def wrong_place(c: Given, folder: Path) -> Given:
    """A password where a protocol belongs is told: nobody can know that it is one; but a misplaced `=` is none."""
    return plain(c, folder) | {"sasl.mechanism": ""}


def nothing_right(c: Given, folder: Path) -> Given:
    return plain(c, folder) | {"security.protocol": "SASL_SSL", "ssl.endpoint.identification.algorithm": ""}


SETTINGS = (
    *(plain, scram_jaas, other_jaas, unquoted_jaas, oauth, oauth_of_librdkafka, oauth_jaas, oauth_url, broken_pem),
    *(only_key, inline_pem, unknown_setting, wrong_place, nothing_right),
)
COMMANDS = (
    ("doctor",),
    ("doctor", "--json"),
    ("doctor", "--debug"),
    ("snapshot", "--archive", "{folder}/archive", "--debug"),
    ("restore", "--archive", "{folder}/archive", "--as-of", "1790000000000", "--debug"),
)


@pytest.mark.parametrize("settings_of", SETTINGS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("behave", [None, silent, hung_up, nonsense], ids=lambda b: b.__name__ if b else "refused")
def test_a_client_that_fails(settings_of, behave, canaries, watched, full):
    file = watched.folder / "given" / "client.properties"
    found = settings_of(canaries, watched.folder)
    file.write_text("".join(f"{name}={value}\n" for name, value in found.items()), encoding="utf-8")
    with server(behave or silent) as port:
        address = f"127.0.0.1:{port if behave else 1}"
        for command in COMMANDS if full or behave in (None, hung_up) else COMMANDS[:1]:
            argv = [word.format(folder=watched.folder) for word in command]
            code = cli.main([*argv, "--bootstrap-servers", address, "--client-config", str(file)])
            assert code != 0
    watched.assert_nothing_told(canaries, where=settings_of.__name__)


@pytest.mark.parametrize("content", ["sasl.password={}\\", "sasl.password {}", "={}", "{}", "\xff{}", "a\0b={}"])
def test_a_file_that_is_none(content: str, canaries: Given, watched: Watched) -> None:
    file = watched.folder / "given" / "client.properties"
    file.write_bytes(content.format(canaries["broken file"]).encode("latin-1"))
    for debug in ((), ("--debug",)):
        code = cli.main(["doctor", "--bootstrap-servers", "127.0.0.1:1", "--client-config", str(file), *debug])
        assert code != 0
    watched.assert_nothing_told({"broken file": canaries["broken file"]}, where=content)


# --- stores


def lakes(c: Given) -> Iterator[tuple[str, dict[str, str]]]:
    place = "127.0.0.1:1/x"
    common = {"type": "jdbc", "warehouse": "/nowhere"}
    yield "userinfo", {**common, "uri": f"jdbc:postgresql://u:{c['catalog url']}@{place}"}
    yield "query", {**common, "uri": f"jdbc:postgresql://{place}?user=u&password={c['catalog query']}"}
    yield (
        "property",
        {**common, "uri": f"jdbc:postgresql://{place}", "jdbc.user": "u", "jdbc.password": c["catalog password"]},
    )
    yield (
        "rest",
        {"type": "rest", "uri": "http://127.0.0.1:1", "token": c["s3 token"], "s3.secret-access-key": c["s3 secret"]},
    )


@pytest.mark.parametrize("kind", ["userinfo", "query", "property", "rest"])
def test_a_lake_that_does_not_answer(kind: str, canaries: Given, watched: Watched) -> None:
    """Through the dashboard, for whom it is the only secret."""
    properties = dict(lakes(canaries))[kind]

    class Broken:
        @property
        def lake(self) -> Lake:
            return open_lake(properties)

    with TestClient(app_over(Broken()), raise_server_exceptions=False) as client:  # type: ignore[arg-type]
        for path in ("/", "/groups", "/api/runs", "/api/groups", "/api/group?id=x", "/plans", "/what-if"):
            answer = client.get(PREFIX + path, headers={"Sec-Fetch-Site": "same-origin"})
            assert answer.status_code >= 400, path
            assert not [name for name, canary in canaries.items() if canary in answer.text], path
    watched.assert_nothing_told(canaries, where=kind)


def test_a_store_that_does_not_answer(canaries: Given, watched: Watched) -> None:
    """Each command as a process of its own, with all of its environment."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SEXTON_"))},
        "PYTHONPATH": str(PROJECT_ROOT),
        "SEXTON_HOME": str(watched.folder),
        "SEXTON_ARCHIVE": f"s3://key:{canaries['archive url']}@bucket/a?endpoint_override=127.0.0.1:1&scheme=http",
        "SEXTON_CATALOG_URI": f"jdbc:postgresql://u:{canaries['catalog url']}@127.0.0.1:1/x",
        "AWS_SECRET_ACCESS_KEY": canaries["s3 secret"],
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SESSION_TOKEN": canaries["s3 token"],
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "HTTP_PROXY": f"http://u:{canaries['proxy url']}@127.0.0.1:1",
        "SOMETHING_ELSE": canaries["environment"],
    }
    sexton = str(Path(sys.executable).parent / "sexton")
    commands = (("explain", "g"), ("archive", "ls"), ("diff", "1790000000000", "1790000000001"), ("doctor",))
    for command in commands:
        done = subprocess.run(
            [sexton, *command, "--debug"], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        said = done.stdout + done.stderr
        assert [kind for kind, canary in canaries.items() if canary in said] == [], f"{command}: {said[:3_000]}"
    watched.assert_nothing_told(canaries, where="commands")


@pytest.mark.parametrize("login", ["KEY:{}/x@y", "KEY:a/{}@y", "KEY:a@{}/x", "K/E:{}", "KEY:a%2F{}%40y"])
def test_a_login_with_letters_that_a_uri_cannot_have(login: str, canaries: Given, watched: Watched) -> None:
    """Keys of AWS may have them: in options, in settings and in a job's arguments, whether they can be used or not."""
    secret = canaries["archive url"]
    archive = f"s3://{login.format(secret)}@bucket/a?endpoint_override=127.0.0.1:1&scheme=http"
    variables = {"SEXTON_HOME": str(watched.folder), "AWS_MAX_ATTEMPTS": "1", "AWS_EC2_METADATA_DISABLED": "true"}
    lake = f"jdbc:postgresql://{login.format(canaries['catalog url'])}@127.0.0.1:1/x"
    with with_settings(SEXTON_ARCHIVE=archive, SEXTON_CATALOG_URI=lake, **variables):
        for words in (("archive", "ls"), ("archive", "verify"), ("explain", "g")):
            for options in (("--debug",), ("--archive", archive)):
                assert cli.main([*words, *options]) != 0
        properties = open_lake().properties
        assert properties["uri"] == "jdbc:postgresql://127.0.0.1:1/x"
        assert canaries["catalog url"] in properties["jdbc.password"]
        for argument in (archive, uri_without_login(archive)):
            run_dir = watched.folder / "run"
            argv = [f"--archive={argument}", f"--run-dir={run_dir}", "--debug", "--json"]
            opens = lambda asked, _: {"x": open_it(asked.archive, archive)}  # noqa: E731
            assert job.main("replay_groups", "", REQUESTS["replay_groups"], opens, argv) != 0
    watched.assert_nothing_told(canaries, where=login)


def open_it(given: str, archive: str) -> object:
    """What a job does with the option, which it knows with its login whatever it was given."""
    assert given == archive
    return open_archive(given)
