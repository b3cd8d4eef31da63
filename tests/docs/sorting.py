"""Which of what stands in the pages' blocks is a command, and who answers for it."""

import re
from functools import cache

from tests.docs.pages import Block, Command, all_blocks, commands

NO_COMMANDS = re.compile(
    r"""<archive>/             # a tree of files
    | \{"                      # a line of JSON
    | PATCH\s/api/             # a request
    | (preview|diff)\s+>>\s     # tasks
    | [A-Z_]+=\S*\s*(\#.*)?$   # settings, told as an environment file has them
    | SEXTON_\w+=['{]          # the same, with spaces
    """,
    re.VERBOSE | re.MULTILINE,
)
"""How the blocks begin that are no shell."""

OWN_TESTS = {
    "docs/restore.md": "tests/cli/test_restore_documentation.py",
}
"""Pages with a world of their own: every `sexton` command of them is run there."""
ACL_TEST = "tests/integration/test_documented_acls.py"
"""It reads the ACLs out of docs/security.md, and grants them on a real broker."""

SEXTON = "sexton"
OF_A_CLUSTER = {"snapshot", "apply", "restore"}
"""Commands that need a broker: tests/integration/test_documented_commands.py runs them."""


@cache
def shell() -> tuple[Command, ...]:
    """Every command of every page."""
    return tuple(command for block in all_blocks() if has_commands(block) for command in commands(block))


def has_commands(block: Block) -> bool:
    return block.is_shell and not NO_COMMANDS.match(block.text.strip())


def sexton_commands(*, of_a_cluster: bool) -> list[Command]:
    """What this project's own command line is asked, but on pages with tests of their own."""
    return [
        command
        for command in shell()
        if command.program == SEXTON and command.page not in OWN_TESTS and needs_cluster(command) == of_a_cluster
    ]


def needs_cluster(command: Command) -> bool:
    words = command.words[1:]
    return bool(words) and (
        words[0] in OF_A_CLUSTER
        or words[:2] == ["show", "restore"]
        or "--bootstrap-servers" in words
        or (words[0] == "doctor" and len(words) > 1 and words[1] != "--json")
    )
