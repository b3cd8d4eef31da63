"""Client settings: Kafka's own names in, the words of kafka-python and of confluent-kafka out.

Accepted are the names of the Java clients and of librdkafka, as they stand in a client.properties file, with or without
Spark's `kafka.` prefix; a name that is not known is refused, because a setting that is silently ignored is worse than
an error. Secrets never show in a repr. Mechanisms: PLAINTEXT, SSL with PEM files, SASL with PLAIN and SCRAM.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sexton.errors import UsageError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

# Kafka's name (Java first, then librdkafka's other spellings) -> field of ClientConfig.
FIELDS = {
    "bootstrap.servers": "bootstrap_servers",
    "metadata.broker.list": "bootstrap_servers",
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "username",
    "sasl.password": "password",
    "ssl.truststore.location": "ca_file",
    "ssl.ca.location": "ca_file",
    "ssl.keystore.location": "certificate_file",
    "ssl.certificate.location": "certificate_file",
    "ssl.key.location": "key_file",
    "ssl.key.password": "key_password",
}
# Handled by name: they set no field of their own.
OTHERS = ("sasl.jaas.config", "ssl.truststore.type", "ssl.keystore.type", "ssl.endpoint.identification.algorithm")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """How to reach one cluster. `certificate_file` may hold the key too, as a Java PEM keystore does."""

    bootstrap_servers: str
    client_id: str = "sexton"
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True

    def __post_init__(self) -> None:
        if not self.bootstrap_servers.strip():
            raise UsageError("bootstrap.servers is empty", fix="give host:port")
        _require_one_of("security.protocol", self.security_protocol, PROTOCOLS)
        if self.security_protocol.startswith("SASL_"):
            _require_one_of("sasl.mechanism", self.sasl_mechanism or "", MECHANISMS)
            if self.username is None or self.password is None:
                raise UsageError(
                    f"{self.sasl_mechanism} needs a name and a password",
                    fix="set sasl.username and sasl.password, or sasl.jaas.config",
                )

    @property
    def principal(self) -> str | None:
        """Who the broker takes this client for, by its default rules; None where only it knows (mTLS, OAUTHBEARER)."""
        if self.security_protocol == "PLAINTEXT":
            return "User:ANONYMOUS"
        return f"User:{self.username}" if self.security_protocol.startswith("SASL_") and self.username else None

    def for_kafka_python(self) -> dict[str, Any]:
        """Arguments for kafka-python's connection manager and clients."""
        return {
            "bootstrap_servers": self.bootstrap_servers.replace(" ", "").split(","),
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
            "ssl_cafile": self.ca_file,
            "ssl_certfile": self.certificate_file,
            "ssl_keyfile": self.key_file,
            "ssl_password": self.key_password,
            "ssl_check_hostname": self.check_hostname,
        }

    def for_confluent(self) -> dict[str, str]:
        """Settings for confluent-kafka's clients; a setting that is not used is left out."""
        named = {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": self.client_id,
            "security.protocol": self.security_protocol,
            "sasl.mechanism": self.sasl_mechanism,
            "sasl.username": self.username,
            "sasl.password": self.password,
            "ssl.ca.location": self.ca_file,
            "ssl.certificate.location": self.certificate_file,
            "ssl.key.location": self.key_file or self.certificate_file,
            "ssl.key.password": self.key_password,
            "ssl.endpoint.identification.algorithm": None if self.check_hostname else "none",
        }
        return {name: value for name, value in named.items() if value is not None}


def client_config(
    properties: Mapping[str, str], *, bootstrap_servers: str | None = None, place: object = None
) -> ClientConfig:
    """The settings that `properties` tell; `bootstrap_servers`, when given, wins. Errors name their origin, `place`."""
    plain = {name.removeprefix("kafka."): value.strip() for name, value in properties.items()}
    if unknown := sorted(name for name in plain if name not in FIELDS and name not in OTHERS):
        known = ", ".join([*FIELDS, *OTHERS])
        raise UsageError(f"not a setting that is known here: {', '.join(unknown)}", place=place, fix=f"known: {known}")
    _refuse_java_stores(plain, place)
    values: dict[str, Any] = {FIELDS[name]: value for name, value in plain.items() if name in FIELDS}
    if "sasl.jaas.config" in plain:
        values["username"], values["password"] = _credentials(plain["sasl.jaas.config"], place)
    if "ssl.endpoint.identification.algorithm" in plain:
        # Java switches the check off with an empty value, librdkafka with "none".
        values["check_hostname"] = plain["ssl.endpoint.identification.algorithm"].lower() not in ("", "none")
    if bootstrap_servers:
        values["bootstrap_servers"] = bootstrap_servers
    if "bootstrap_servers" not in values:
        raise UsageError("no bootstrap.servers", place=place, fix="give --bootstrap-servers host:port")
    return ClientConfig(**values)


def read_properties(path: Path) -> dict[str, str]:
    """The entries of a Java properties file: comments, continued lines and the escapes that occur in client files."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"cannot be read: {reason}", place=path) from None
    entries = {}
    for line in _logical_lines(text):
        found = re.match(r"((?:\\.|[^\\=:\s])+)\s*[=:\s]?\s*(.*)", line, flags=re.DOTALL)
        if found:
            entries[_unescaped(found[1])] = _unescaped(found[2])
    return entries


def _logical_lines(text: str) -> Iterator[str]:
    held = ""
    for line in text.splitlines():
        line = line.lstrip()
        if not held and (not line or line[0] in "#!"):
            continue
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            held += line[:-1]
            continue
        yield held + line
        held = ""
    if held:
        yield held


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1]), text)


def _credentials(jaas: str, place: object) -> tuple[str, str]:
    """Name and password of a PLAIN or SCRAM login module's options."""
    options = dict(re.findall(r'(\w+)\s*=\s*"((?:\\.|[^"\\])*)"', jaas))
    if not re.search(r"\b(Plain|Scram)LoginModule\b", jaas) or not {"username", "password"} <= set(options):
        raise UsageError(
            "sasl.jaas.config is not understood: expected PlainLoginModule or ScramLoginModule with a quoted username "
            "and password",
            place=place,
        )
    return _unescaped(options["username"]), _unescaped(options["password"])


def _refuse_java_stores(plain: Mapping[str, str], place: object) -> None:
    for store in ("truststore", "keystore"):
        location = plain.get(f"ssl.{store}.location")
        kind = plain.get(f"ssl.{store}.type", "PEM" if location and location.endswith(".pem") else "JKS").upper()
        if location and kind != "PEM":
            raise UsageError(
                f"ssl.{store}.location is a {kind} store, which only Java reads",
                place=place,
                fix=f"export it as PEM and set ssl.{store}.type=PEM",
            )


def _require_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{name} is {value or 'not set'}: expected one of {', '.join(allowed)}")
