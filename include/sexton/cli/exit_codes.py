"""The exit codes of every command, in one place; `sexton.errors` says which error has which."""

from collections.abc import Mapping
from types import MappingProxyType

INTERRUPTED = 130

CODES: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        0: ("fine", "What a broker would answer to a question is an answer, also where it is an error."),
        2: ("usage", "An option, a setting or an input is wrong or missing; nothing was done."),
        3: ("data quality", "A critical check failed, an archive has lost something, a policy's test did not pass."),
        4: ("no coverage", "Nothing is known of that instant, or of that group's log partition."),
        5: ("undecodable input", "All output is written, but some bytes could not be read, or a load never ends."),
        6: ("refused", "A guard said no, and nothing was touched."),
        1: ("anything else", "Trying again may help."),
        INTERRUPTED: ("interrupted", "Ctrl-C."),
    }
)
"""Of each a word, and what it says."""
ORDER = (2, 4, 5, 6, 3, 1)
"""Of several that apply the first of these is it."""
