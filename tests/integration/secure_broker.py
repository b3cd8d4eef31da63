"""A broker that lets in whom it knows, and lets them do what they were granted: every login that we can speak, ACLs.

Its listeners: PLAINTEXT (whoever comes by it may do everything), SASL (PLAIN, SCRAM, OAUTHBEARER) and TLS, where the
common name of the client's certificate is its name. Passwords are those of PASSWORDS everywhere; tokens come from a
server in this process.
"""

import datetime as dt
import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig, client_config
from sexton.ports import HOST
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from sexton_dev.workload import wait
from tests.clients import admin_of
from tests.kafka.token_server import AUDIENCE, ISSUER, TokenServer, serving

READER, APPLIER, NOBODY = "sexton-reader", "sexton-applier", "nobody"
PASSWORDS = {name: f"{name}-canary-{token_hex(8)}" for name in (READER, APPLIER, NOBODY)}
"""Drawn anew in every process: the tools that make a broker's users show them as arguments, to tests beside it too."""
SECURITY = "org.apache.kafka.common.security"
LOGINS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "SSL")
BROKER = "BROKER", "kafka-cluster"
SEEING = ("TOPIC", "*", "DESCRIBE DESCRIBE_CONFIGS"), ("GROUP", "*", "DESCRIBE"), (*BROKER, "DESCRIBE DESCRIBE_CONFIGS")
"""What an admin snapshot takes: no READ of any topic."""


@dataclass(frozen=True)
class SecureCluster:
    broker: EmbeddedBroker
    sasl_port: int
    tls_port: int
    tokens: TokenServer
    pki: Path

    @property
    def all_powerful(self) -> ClientConfig:
        return client_config({}, bootstrap_servers=self.broker.bootstrap_servers)

    def properties(self, name: str, login: str = "SCRAM-SHA-512") -> dict[str, str]:
        """The settings with which `name` logs in, as a client.properties file has them."""
        if login == "SSL":
            return {
                "bootstrap.servers": f"{HOST}:{self.tls_port}", "security.protocol": "SSL",
                "ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.pki / "ca.pem"),
                "ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.pki / f"{name}.pem"),
            }  # fmt: skip
        reached = {"bootstrap.servers": f"{HOST}:{self.sasl_port}", "security.protocol": "SASL_PLAINTEXT"}
        if login == "OAUTHBEARER":
            return reached | {
                "sasl.mechanism": login,
                "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
                "sasl.oauthbearer.client.credentials.client.id": name,
                "sasl.oauthbearer.client.credentials.client.secret": PASSWORDS[name],
                "sasl.oauthbearer.scope": "kafka",
            }
        module = f"{SECURITY}.plain.PlainLoginModule" if login == "PLAIN" else f"{SECURITY}.scram.ScramLoginModule"
        jaas = f'{module} required username="{name}" password="{PASSWORDS[name]}";'
        return reached | {"sasl.mechanism": login, "sasl.jaas.config": jaas}

    def config(self, name: str, login: str = "SCRAM-SHA-512") -> ClientConfig:
        return client_config(self.properties(name, login))


def grant(
    config: ClientConfig, principal: str, *rights: tuple[str, str, str],
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> None:  # fmt: skip
    """Rights are (resource, its whole name, operations with blanks between them)."""
    literal = ResourcePatternType.LITERAL
    acls = [
        AclBinding(ResourceType[kind], name, literal, f"User:{principal}", "*", AclOperation[does], permission)
        for kind, name, operations in rights
        for does in operations.split()
    ]
    admin = admin_of(config)  # has to live until it is answered
    wait(admin.create_acls(acls))


@contextmanager
def secure_cluster(
    directory: Path,
    *,
    java: JavaHome,
    jars: Sequence[Path],
    settings: Mapping[str, str] | None = None,
    jvm_options: Sequence[str] = (),
) -> Iterator[SecureCluster]:
    """A cluster that runs as long as the block; nobody is granted anything in it."""
    pki = directory / "pki"
    _make_certificates(pki, PASSWORDS)
    sasl_port, tls_port = free_port(), free_port()
    with serving(clients=dict(PASSWORDS)) as tokens:
        keys = pki / "jwks.json"
        keys.write_text(tokens.jwks, encoding="utf-8")
        broker = EmbeddedBroker(
            directory / "broker",
            port=free_port(),
            java=java,
            jars=jars,
            settings=_settings(sasl_port=sasl_port, tls_port=tls_port, pki=pki, keys=keys) | dict(settings or {}),
            scram=[
                f"SCRAM-SHA-{bits}=[name={name},iterations=4096,password={password}]"
                for name, password in PASSWORDS.items()
                for bits in (256, 512)
            ],
            jvm_options=[f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}", *jvm_options],
        )
        with broker:
            yield SecureCluster(broker=broker, sasl_port=sasl_port, tls_port=tls_port, tokens=tokens, pki=pki)


def _settings(*, sasl_port: int, tls_port: int, pki: Path, keys: Path) -> dict[str, str]:
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    oauth = "listener.name.sasl.oauthbearer.sasl"
    scram = f"{SECURITY}.scram.ScramLoginModule required;"
    protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT", "SASL": "SASL_PLAINTEXT", "TLS": "SSL"}
    return {
        "listeners": f"SASL://{HOST}:{sasl_port},TLS://{HOST}:{tls_port}",
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": ",".join(login for login in LOGINS if login != "SSL"),
        "listener.name.sasl.plain.sasl.jaas.config": f"{SECURITY}.plain.PlainLoginModule required {users};",
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": scram,
        f"{oauth}.jaas.config": f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
        f"{oauth}.server.callback.handler.class": f"{SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler",
        f"{oauth}.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        f"{oauth}.oauthbearer.expected.audience": AUDIENCE,
        f"{oauth}.oauthbearer.expected.issuer": ISSUER,
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pki / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(pki / "ca.pem"),
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
    }


def _make_certificates(folder: Path, names: Sequence[str] | Mapping[str, str]) -> None:
    """`ca.pem`, and key and certificate of the broker and of every name in one file each, good for a day."""
    folder.mkdir(parents=True)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("test-ca", ca_key, issuer="test-ca", signer=ca_key, is_ca=True)
    (folder / "ca.pem").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    for name in ("broker", *names):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key, issuer="test-ca", signer=ca_key, is_ca=False)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (folder / f"{name}.pem").write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, *, issuer: str, signer: ec.EllipticCurvePrivateKey, is_ca: bool
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(here), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .sign(signer, hashes.SHA256())
    )
