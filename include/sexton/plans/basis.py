"""What a change of a cluster was planned by, and so what shows whether it may still be made, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The basis of a plan or of a restore.

    `needs_log`: the change is compared with the offsets topic, so it has to be shown and places in it are known.
    `about` is what restores and ledgers keep of the basis, `sentence` what people read of it,
    and `unseen` what nobody can see while it is applied; both None where there is nothing to say.
    """

    needs_log: bool = True
    about: Mapping[str, str] = field(default_factory=dict)
    sentence: str | None = None
    unseen: str | None = None


BY_LOG = Basis()
_LOG_WAS_READ = ("complete", "partial")


def basis_of(about: Mapping[str, object]) -> Basis:
    """The basis that was kept as `about`, with whatever else was kept: of any coverage but the log's, admin
    snapshots."""
    coverage = str(about.get("coverage", "complete"))
    if coverage in _LOG_WAS_READ:
        return BY_LOG
    return Basis(
        needs_log=False,
        about={"coverage": coverage},
        sentence=f"{coverage}: made without the log, and compared with admin snapshots before each call. A commit "
        "between the last of them and its call is deleted unseen",
        unseen="a commit between a preflight check and its call's effect was deleted unseen, if there was one",
    )
