"""What programs of ours print: a command in this process, and code in a process of its own."""

import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from sexton import cli


def sexton(*argv: object) -> dict[str, Any]:
    """What a command answers that has to succeed."""
    with redirect_stdout(StringIO()) as out:
        assert cli.main([*map(str, argv), "--json"]) == 0, argv
    return dict(json.loads(out.getvalue()))


def printed(code: str, **variables: str) -> str:
    """What Python code prints in a process with these variables, too; its errors are a part of it."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout
