"""The exit codes of all commands; `sexton.errors` defines the exit code of each error."""

from collections.abc import Mapping
from types import MappingProxyType

INTERRUPTED = 130

CODES: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        0: ("fine", "The command succeeded. An error that a broker would return counts as an answer."),
        2: (
            "usage",
            "An option, a setting or an input is wrong or missing; nothing was done. Exception: `transactions` without "
            "permission to read `__transaction_state` still prints what the offsets log proves.",
        ),
        3: (
            "data quality",
            "A critical check failed, an archive has lost something, replicas disagree, a transaction hangs, "
            "a policy's test failed, or a rehearsal is not safe or has no way back.",
        ),
        4: ("no coverage", "Nothing is known about that instant, or about that group's log partition."),
        5: (
            "undecodable input",
            "All output is written, but some bytes could not be decoded, or a load would fail or never end.",
        ),
        6: ("refused", "A safety check refused; nothing was changed."),
        1: ("anything else", "A retry may help."),
        INTERRUPTED: ("interrupted", "Ctrl-C."),
    }
)
"""Code -> short name and meaning."""
ORDER = (2, 4, 5, 6, 3, 1)
"""If several apply, the first of these is returned."""
