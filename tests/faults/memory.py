"""How much memory a piece of work takes at its peak, as the kernel counts it: Linux only, None elsewhere.

`run_alone` does the work in a process of its own, so that nothing of the tests' own is counted or freed.
"""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_STATUS, _CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
needs_proc = pytest.mark.skipif(not _STATUS.exists(), reason="only Linux tells the peak of a process")


class PeakMemory:
    """While it is entered: how far above its beginning the process's resident memory has come, in `growth_bytes`."""

    def __enter__(self) -> "PeakMemory":
        self.growth_bytes: int | None = None
        if _STATUS.exists():
            _CLEAR_REFS.write_text("5")  # forget the peak so far
            self._before_bytes = _resident_bytes("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        if _STATUS.exists():
            self.growth_bytes = _resident_bytes("VmHWM") - self._before_bytes


def peak_bytes() -> int:
    """The largest resident memory of this process so far."""
    return _resident_bytes("VmHWM")


def _resident_bytes(name: str) -> int:
    (kibibytes,) = re.findall(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(), flags=re.MULTILINE)
    return int(kibibytes) << 10


def run_alone(function: Any, *arguments: Any) -> Any:
    """What `function` of a module of tests returns for `arguments` in a new process; all of it must be JSON."""
    work = json.dumps([function.__module__, function.__name__, arguments])
    done = subprocess.run([sys.executable, "-m", __name__, work], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-4_000:]}"
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    module, name, given = json.loads(sys.argv[1])
    print(json.dumps(getattr(importlib.import_module(module), name)(*given)))
