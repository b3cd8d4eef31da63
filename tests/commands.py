"""A command of ours in this process, as JSON."""

import json
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from sexton import cli


def sexton(*argv: object) -> dict[str, Any]:
    """What a command answers that has to succeed."""
    with redirect_stdout(StringIO()) as out:
        assert cli.main([*map(str, argv), "--json"]) == 0, argv
    return dict(json.loads(out.getvalue()))
