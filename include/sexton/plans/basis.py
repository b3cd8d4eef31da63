"""The evidence behind a planned change of a cluster: it decides how the change is checked and verified."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The basis of a plan or of a restore.

    `needs_log`: the change is compared with the offsets topic, so the topic must be readable and log positions are
    known. `about` is stored in restores and ledgers, `sentence` is shown to people, and `unseen` says what cannot be
    observed while the change is applied; both texts are None if there is nothing to say.
    """

    needs_log: bool = True
    about: Mapping[str, str] = field(default_factory=dict)
    sentence: str | None = None
    unseen: str | None = None


BY_LOG = Basis()
_LOG_WAS_READ = ("complete", "partial")


def basis_of(about: Mapping[str, object]) -> Basis:
    """The basis stored as `about` (other keys are ignored). A coverage other than those of the log (`complete`,
    `partial`) means admin snapshots."""
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
