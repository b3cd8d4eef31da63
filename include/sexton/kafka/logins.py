"""Logins in client settings: a JAAS line as in Java clients, or one setting per field."""

import re
from collections.abc import Mapping
from typing import Any

from sexton.errors import UsageError
from sexton.kafka.oauth import ClientCredentials

OAUTH_FIELDS = {
    "sasl.oauthbearer.token.endpoint.url": "token_endpoint",
    "sasl.oauthbearer.client.credentials.client.id": "client_id",
    "sasl.oauthbearer.client.credentials.client.secret": "client_secret",
    "sasl.oauthbearer.client.id": "client_id",
    "sasl.oauthbearer.client.secret": "client_secret",
    "sasl.oauthbearer.scope": "scope",
    "https.ca.location": "ca_file",
}
"""Kafka's name (Java first, then librdkafka's) -> field of ClientCredentials."""
JAAS = "sasl.jaas.config"
OAUTH_EXTENSIONS = "sasl.oauthbearer.extensions"
_JAAS_OAUTH = {"clientId": "client_id", "clientSecret": "client_secret", "scope": "scope"}
_JAAS_EXTENSION = "extension_"
_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)')""")


def name_and_password(jaas: str, where: object) -> tuple[str, str]:
    """Name and password of a PLAIN or SCRAM login module's options."""
    options = _options(jaas)
    if not re.search(r"\b(Plain|Scram)LoginModule\b", jaas) or not {"username", "password"} <= set(options):
        raise UsageError(
            "sasl.jaas.config is not understood: expected PlainLoginModule or ScramLoginModule with a quoted username "
            "and password",
            where=where,
        )
    return options["username"], options["password"]


def client_credentials(plain: Mapping[str, str], where: object) -> ClientCredentials | None:
    """The OAUTHBEARER login in the settings, completed by a jaas line; None when something is missing."""
    options = _options(plain[JAAS]) if JAAS in plain else {}
    own = {name: value for name, value in options.items() if not name.startswith(_JAAS_EXTENSION)}
    if JAAS in plain and not (
        re.search(r"\bOAuthBearerLoginModule\b", plain[JAAS]) and own.keys() <= _JAAS_OAUTH.keys()
    ):
        raise UsageError(
            f"sasl.jaas.config is not understood: expected OAuthBearerLoginModule with {', '.join(_JAAS_OAUTH)} and "
            f"{_JAAS_EXTENSION}NAME",
            where=where,
        )
    values: dict[str, Any] = {_JAAS_OAUTH[name]: value for name, value in own.items()}
    values |= {field: plain[name] for name, field in OAUTH_FIELDS.items() if name in plain}
    if not {"token_endpoint", "client_id", "client_secret"} <= values.keys():
        return None
    pairs = [pair.partition("=") for pair in plain.get(OAUTH_EXTENSIONS, "").split(",") if pair.strip()]
    extensions = {name.removeprefix(_JAAS_EXTENSION): value for name, value in options.items() if name not in own}
    extensions |= {name.strip(): value.strip() for name, _, value in pairs}
    return ClientCredentials(**values, extensions=extensions)


def unescaped(text: str) -> str:
    """Text without the backslashes that properties files and quoted options escape with."""
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1]), text)


def _options(jaas: str) -> dict[str, str]:
    return {name: unescaped(double or single) for name, double, single in _OPTION.findall(jaas)}
