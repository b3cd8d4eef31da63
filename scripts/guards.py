"""Shows that another test guards what a removed test guarded: `python scripts/guards.py [NAME ...]`, by default all.

A test was removed if another test proves the same. For each entry of tests/guards.toml this program breaks the place
that the removed test guarded (`old` becomes `new` in `file`), runs the other test (`test`), which must fail, and puts
the file back. The tree is changed meanwhile: run nothing else in it.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0"]
_TESTS_FAILED = 1  # pytest's exit code; a test that is not there or does not import has another


def shows(guard: dict[str, str]) -> str:
    """Return how the test of a guard ended after its place was broken: "fails" is the right result."""
    path = ROOT / guard["file"]
    whole = path.read_text()
    if whole.count(guard["old"]) != 1:
        return f"its text is {whole.count(guard['old'])} times in {guard['file']}, not once"
    path.write_text(whole.replace(guard["old"], guard["new"]))
    try:
        done = subprocess.run([*_PYTEST, guard["test"]], cwd=ROOT, capture_output=True, text=True, check=False)
    finally:
        path.write_text(whole)
    match done.returncode:
        case 0:
            return "PASSES: nothing guards this place"
        case code if code == _TESTS_FAILED:
            return "fails"
        case code:
            return f"does not run: pytest ended with {code}\n{done.stdout[-2_000:]}"


def main() -> None:
    guards = tomllib.loads((ROOT / "tests" / "guards.toml").read_text())
    holes = 0
    for name in sys.argv[1:] or guards:
        answer = shows(guards[name])
        holes += answer != "fails"
        sys.stdout.write(f"{name}: {guards[name]['test']} {answer}\n")
        sys.stdout.flush()
    sys.exit(holes > 0)


if __name__ == "__main__":
    main()
