"""Client settings: both families of names give the same client, and nothing is ignored or shown that must not be."""

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from sexton.errors import UsageError
from sexton.kafka.client import ClientConfig, client_config, read_properties
from sexton.kafka.oauth import ClientCredentials

BROKER = {"bootstrap.servers": "a:1, b:2"}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OAUTH = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
BY_NAME = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
BY_SCRAM = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{SCRAM} required username="u" password="p\\"; x=\\\\y";',
}


@pytest.mark.parametrize(
    "properties, fields",
    [
        ({}, {"security_protocol": "PLAINTEXT", "client_id": "sexton"}),
        ({"client.id": "me", "kafka.security.protocol": "SSL"}, {"client_id": "me", "security_protocol": "SSL"}),
        (BY_NAME, {"sasl_mechanism": "PLAIN", "username": "u", "password": "p"}),
        (BY_SCRAM, {"sasl_mechanism": "SCRAM-SHA-512", "username": "u", "password": 'p"; x=\\y'}),
        ({"ssl.truststore.location": "/ca.pem"}, {"ca_file": "/ca.pem"}),
        ({"ssl.truststore.location": "/ca", "ssl.truststore.type": "PEM"}, {"ca_file": "/ca"}),
        ({"ssl.ca.location": "/ca.pem"}, {"ca_file": "/ca.pem"}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"check_hostname": False}),
        ({"ssl.endpoint.identification.algorithm": "https"}, {"check_hostname": True}),
    ],
)
def test_names_of_both_families(properties: dict[str, str], fields: dict[str, Any]) -> None:
    config = client_config(BROKER | properties)
    assert {name: getattr(config, name) for name in fields} == fields


@pytest.mark.parametrize(
    "properties, said",
    [
        ({"sasl.oauthbearer.assertion.file": "x", "max.poll.records": "1"}, "max.poll.records, sasl.oauthbearer.ass"),
        (OAUTH | {"sasl.oauthbearer.method": "default"}, "sasl.oauthbearer.method is default: expected one of oidc"),
        (OAUTH | {"sasl.login.callback.handler.class": "my.Handler"}, "handler.class is my.Handler: expected"),
        (OAUTH | {"sasl.oauthbearer.client.secret": "s"}, "OAUTHBEARER needs a token endpoint, a client id and a "),
        (OAUTH | {"sasl.jaas.config": f'{BEARER} required user="u";'}, "expected OAuthBearerLoginModule with clientId"),
        (OAUTH | {"sasl.jaas.config": f'{SCRAM} required clientId="u";'}, "expected OAuthBearerLoginModule"),
        ({"security.protocol": "TLS"}, "security.protocol is TLS: expected one of PLAINTEXT"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is not set"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism is GSSAPI"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "needs a name and a password"),
        ({"ssl.truststore.location": "/x.jks"}, "is a JKS store, which only Java reads"),
        ({"ssl.keystore.location": "/x.p12", "ssl.keystore.type": "PKCS12"}, "is a PKCS12 store"),
        ({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"}, "not understood"),
        ({"sasl.jaas.config": f"{PLAIN} required;"}, "not understood"),
        ({"bootstrap.servers": " "}, "bootstrap.servers is empty"),
    ],
)
def test_what_is_not_understood_is_refused(properties: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        client_config(BROKER | properties)


def test_no_broker_named() -> None:
    with pytest.raises(UsageError, match=r"no bootstrap\.servers"):
        client_config({})


def test_bootstrap_servers_of_the_command_line_win() -> None:
    assert client_config(BROKER, bootstrap_servers="c:3").bootstrap_servers == "c:3"


def test_secrets_are_not_shown() -> None:
    login = {"sasl_mechanism": "PLAIN", "username": "user", "password": "canary-1", "key_password": "canary-2"}
    config = ClientConfig(bootstrap_servers="a:1", security_protocol="SASL_SSL", **login)
    assert "canary" not in repr(config) + str(config)
    assert config.for_confluent()["sasl.password"] == config.for_kafka_python()["sasl_plain_password"] == "canary-1"


def test_a_refused_jaas_line_does_not_show_its_secret() -> None:
    with pytest.raises(UsageError) as caught:
        client_config(BROKER | {"sasl.jaas.config": 'x.Krb5LoginModule required username="u" password="canary";'})
    assert "canary" not in str(caught.value)


def test_words_of_the_two_clients() -> None:
    files = {"ssl.keystore.location": "/me.pem", "ssl.ca.location": "/ca.pem"}
    config = client_config(BROKER | {"security.protocol": "SSL"} | files)
    assert config.for_confluent() == {
        "bootstrap.servers": "a:1, b:2", "client.id": "sexton", "security.protocol": "SSL",
        "ssl.ca.location": "/ca.pem", "ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem",
    }  # fmt: skip
    assert config.for_kafka_python()["bootstrap_servers"] == ["a:1", "b:2"]
    assert config.for_kafka_python()["ssl_certfile"] == "/me.pem"


def test_both_clients_trust_the_same_authorities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = tmp_path / "usual.pem"
    usual.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(usual))
    assert client_config(BROKER | {"security.protocol": "SSL"}).for_confluent()["ssl.ca.location"] == str(usual)
    assert "ssl.ca.location" not in client_config(BROKER).for_confluent()


BY_JAAS = {
    "sasl.login.callback.handler.class": f"{BEARER.rpartition('.')[0]}.secured.OAuthBearerLoginCallbackHandler",
    "sasl.jaas.config": f"""{BEARER} required clientId='me' clientSecret="ca;nary" scope="a b" extension_x="1";""",
}
BY_SETTINGS = {
    "sasl.oauthbearer.client.credentials.client.id": "me",
    "sasl.oauthbearer.client.credentials.client.secret": "ca;nary",
    "sasl.oauthbearer.scope": "a b",
    "sasl.oauthbearer.extensions": "x=1",
}
BY_LIBRDKAFKA = {"sasl.oauthbearer.method": "oidc"} | {
    name.replace("client.credentials.", ""): value for name, value in BY_SETTINGS.items()
}


@pytest.mark.parametrize("spelling", [BY_JAAS, BY_SETTINGS, BY_LIBRDKAFKA], ids=["jaas", "java", "librdkafka"])
def test_oauthbearer_in_every_spelling(spelling: dict[str, str]) -> None:
    config = client_config(BROKER | OAUTH | spelling)
    assert "nary" not in repr(config) + str(config)
    assert config.principal is None
    assert config.oauth == ClientCredentials(
        token_endpoint="https://idp/token", client_id="me", client_secret="ca;nary", scope="a b", extensions={"x": "1"}
    )
    told = config.for_confluent()
    assert [name for name in told if "oauth" in name] == ["oauth_cb"]
    assert "nary" not in str(told)
    provider = config.for_kafka_python()["sasl_oauth_token_provider"]
    assert provider.extensions() == {"x": "1"}


def test_librdkafka_knows_every_name() -> None:
    own = {"security.protocol": "SASL_PLAINTEXT", "https.ca.location": "probe"}
    told = client_config(BROKER | OAUTH | BY_LIBRDKAFKA | own).for_confluent()
    AdminClient({**told, "oauth_cb": lambda _: ("abc", time.time() + 60), "log_level": 0})


def test_who_the_broker_takes_us_for() -> None:
    assert client_config(BROKER).principal == "User:ANONYMOUS"
    assert client_config(BROKER | {"security.protocol": "SSL", "sasl.username": "u"}).principal is None
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
    assert client_config(BROKER | login).principal == "User:u"


def test_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# comment\n! another\n\nbootstrap.servers = a:1\n  client.id:me\nsasl.username\tu\n"
        'sasl.jaas.config=x.PlainLoginModule required \\\n   username="u" \\\n   password="p=1:2";\n'
        "ssl.ca.location=C:\\\\ca.pem\nempty=\n",
        encoding="utf-8",
    )
    assert read_properties(file) == {
        "bootstrap.servers": "a:1", "client.id": "me", "sasl.username": "u",
        "sasl.jaas.config": 'x.PlainLoginModule required username="u" password="p=1:2";',
        "ssl.ca.location": "C:\\ca.pem", "empty": "",
    }  # fmt: skip


def test_unreadable_properties_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent.properties: cannot be read: No such file"):
        read_properties(tmp_path / "absent.properties")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_properties(tmp_path / "binary")


@pytest.mark.parametrize("line", ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "hunter2", "a+b/c=="])
def test_a_line_of_a_key_is_not_repeated(line):
    """A PEM that lost its backslashes is a name of a setting in each of its lines."""
    with pytest.raises(UsageError, match=r"a line without a setting's name, sasl\.pasword") as caught:
        client_config(BROKER | {line: "", "sasl.pasword": "x"})
    assert line not in str(caught.value)
