"""Client settings: Kafka's names in, the arguments of kafka-python and of confluent-kafka out.

Accepted are the names of the Java clients and of librdkafka, as in a client.properties file, with or without Spark's
`kafka.` prefix; an unknown name is refused, because a setting that is silently ignored is worse than an error. Secrets
never show in a repr. Mechanisms: PLAINTEXT, SSL with PEM files, SASL with PLAIN, SCRAM, OAUTHBEARER with client
credentials (KIP-768).
"""

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sexton.errors import UsageError
from sexton.kafka.logins import JAAS, OAUTH_EXTENSIONS, OAUTH_FIELDS, client_credentials, name_and_password, unescaped
from sexton.kafka.oauth import ClientCredentials, TokenProvider, librdkafka_callback

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)

# Field of ClientConfig, kafka-python's argument, librdkafka's setting, all names of the setting (Java's first).
SPELLINGS = (
    ("bootstrap_servers", "bootstrap_servers", "bootstrap.servers", ("bootstrap.servers", "metadata.broker.list")),
    ("client_id", "client_id", "client.id", ("client.id",)),
    ("security_protocol", "security_protocol", "security.protocol", ("security.protocol",)),
    ("sasl_mechanism", "sasl_mechanism", "sasl.mechanism", ("sasl.mechanism", "sasl.mechanisms")),
    ("username", "sasl_plain_username", "sasl.username", ("sasl.username",)),
    ("password", "sasl_plain_password", "sasl.password", ("sasl.password",)),
    ("ca_file", "ssl_cafile", "ssl.ca.location", ("ssl.truststore.location", "ssl.ca.location")),
    (
        "certificate_file",
        "ssl_certfile",
        "ssl.certificate.location",
        ("ssl.keystore.location", "ssl.certificate.location"),
    ),
    ("key_file", "ssl_keyfile", "ssl.key.location", ("ssl.key.location",)),
    ("key_password", "ssl_password", "ssl.key.password", ("ssl.key.password",)),
)
FIELDS = {name: own for own, _, _, names in SPELLINGS for name in names}
# Settings that are handled by name: they set no field.
CHECKS_HOSTNAME = "ssl.endpoint.identification.algorithm"
OTHERS = (JAAS, OAUTH_EXTENSIONS, "ssl.truststore.type", "ssl.keystore.type", CHECKS_HOSTNAME)
# Fixed behaviour of this client: the only allowed values.
ALLOWED_VALUES = {
    "sasl.oauthbearer.method": ("oidc",),
    "sasl.oauthbearer.grant.type": ("client_credentials",),
    "sasl.oauthbearer.metadata.authentication.type": ("none",),
    "sasl.login.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    ),
    "sasl.oauthbearer.jwt.retriever.class": (
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """How to reach one cluster. `certificate_file` may contain the key too, as a Java PEM keystore does."""

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
    oauth: ClientCredentials | None = None

    def __post_init__(self) -> None:
        if not self.bootstrap_servers.strip():
            raise UsageError("bootstrap.servers is empty", fix="give host:port")
        _require_one_of("security.protocol", self.security_protocol, PROTOCOLS)
        if self.security_protocol.startswith("SASL_"):
            _require_one_of("sasl.mechanism", self.sasl_mechanism or "", MECHANISMS)
            if self.sasl_mechanism == OAUTHBEARER:
                if self.oauth is None:
                    raise UsageError(
                        "OAUTHBEARER needs a token endpoint, a client id and a client secret",
                        fix="set sasl.oauthbearer.token.endpoint.url, .client.id and .client.secret",
                    )
            elif self.username is None or self.password is None:
                raise UsageError(
                    f"{self.sasl_mechanism} needs a name and a password",
                    fix="set sasl.username and sasl.password, or sasl.jaas.config",
                )

    @property
    def _is_oauth(self) -> bool:
        return self.security_protocol.startswith("SASL_") and self.sasl_mechanism == OAUTHBEARER

    @property
    def principal(self) -> str | None:
        """The principal that the broker derives for this client by its default rules; None where only the broker knows
        it (mTLS, OAUTHBEARER)."""
        if self.security_protocol == "PLAINTEXT":
            return "User:ANONYMOUS"
        is_named = self.security_protocol.startswith("SASL_") and not self._is_oauth
        return f"User:{self.username}" if is_named else None

    def for_kafka_python(self) -> dict[str, Any]:
        """Arguments for kafka-python's connection manager and clients."""
        return {
            **{argument: getattr(self, own) for own, argument, _, _ in SPELLINGS},
            "bootstrap_servers": self.bootstrap_servers.replace(" ", "").split(","),
            "sasl_oauth_token_provider": TokenProvider(self.oauth) if self.oauth and self._is_oauth else None,
            "ssl_check_hostname": self.check_hostname,
        }

    def for_confluent(self) -> dict[str, Any]:
        """Settings for confluent-kafka's clients; a setting that is not used is left out."""
        named: dict[str, Any] = {
            **{setting: getattr(self, own) for own, _, setting, _ in SPELLINGS},
            "ssl.ca.location": self.ca_file
            or (_usual_authorities() if self.security_protocol.endswith("SSL") else None),
            "ssl.key.location": self.key_file or self.certificate_file,
            CHECKS_HOSTNAME: None if self.check_hostname else "none",
            "oauth_cb": librdkafka_callback(self.oauth) if self.oauth and self._is_oauth else None,
        }
        return {name: value for name, value in named.items() if value is not None}


def client_config(
    properties: Mapping[str, str], *, bootstrap_servers: str | None = None, where: object = None
) -> ClientConfig:
    """The settings in `properties`; `bootstrap_servers` overrides the one there. Errors name `where`, their source."""
    plain = {name.removeprefix("kafka."): value.strip() for name, value in properties.items()}
    names = [*FIELDS, *OAUTH_FIELDS, *OTHERS, *ALLOWED_VALUES]
    if unknown := sorted(name for name in plain if name not in names):
        known = ", ".join(names)
        shown = ", ".join(dict.fromkeys(map(_quotable, unknown)))
        raise UsageError(f"unknown settings: {shown}", where=where, fix=f"known: {known}")
    _refuse_java_stores(plain, where)
    for name, allowed in ALLOWED_VALUES.items():
        if name in plain:
            _require_one_of(name, plain[name], allowed)
    values: dict[str, Any] = {FIELDS[name]: value for name, value in plain.items() if name in FIELDS}
    if plain.get("sasl.mechanism", plain.get("sasl.mechanisms")) == OAUTHBEARER:
        values["oauth"] = client_credentials(plain, where)
    elif JAAS in plain:
        values["username"], values["password"] = name_and_password(plain[JAAS], where)
    if CHECKS_HOSTNAME in plain:
        # Java switches the check off with an empty value, librdkafka with "none".
        values["check_hostname"] = plain[CHECKS_HOSTNAME].lower() not in ("", "none")
    if bootstrap_servers:
        values["bootstrap_servers"] = bootstrap_servers
    if "bootstrap_servers" not in values:
        raise UsageError("no bootstrap.servers", where=where, fix="give --bootstrap-servers host:port")
    return ClientConfig(**values)


def read_properties(path: Path) -> dict[str, str]:
    """The entries of a Java properties file: comments, continued lines and the escapes that occur in client files."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"cannot be read: {reason}", where=path) from None
    entries = {}
    for line in _logical_lines(text):
        found = re.match(r"((?:\\.|[^\\=:\s])+)\s*[=:\s]?\s*(.*)", line, flags=re.DOTALL)
        if found:
            entries[unescaped(found[1])] = unescaped(found[2])
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


def _usual_authorities() -> str | None:
    """The CA bundle that Python uses, also for librdkafka, which would search other places and ignores
    SSL_CERT_FILE."""
    places = ssl.get_default_verify_paths()
    return places.cafile or places.capath


def _refuse_java_stores(plain: Mapping[str, str], where: object) -> None:
    for store in ("truststore", "keystore"):
        location = plain.get(f"ssl.{store}.location")
        kind = plain.get(f"ssl.{store}.type", "PEM" if location and location.endswith(".pem") else "JKS").upper()
        if location and kind != "PEM":
            raise UsageError(
                f"ssl.{store}.location is a {kind} store, which only Java reads",
                where=where,
                fix=f"export it as PEM and set ssl.{store}.type=PEM",
            )


def _quotable(name: str) -> str:
    """The name of an unknown setting for a message; text that does not look like a name is hidden, because it may be a
    line of a private key."""
    return name if re.fullmatch(r"[a-z]{1,20}([._][a-z0-9-]{1,20})+", name) else "a line without a setting's name"


def _require_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{name} is {value or 'not set'}: expected one of {', '.join(allowed)}")
