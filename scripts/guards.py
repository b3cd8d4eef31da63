"""Shows that what a removed test guarded is guarded: `python scripts/guards.py [NAME ...]`, all without a name.

A test was removed where another one proves the same. Each entry of tests/guards.toml breaks the place that the removed
test guarded (`old` becomes `new` in `file`), runs the test that took it over (`test`), which must fail, and puts the
file back. The tree is changed meanwhile: run nothing else in it.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0"]
_TESTS_FAILED = 1  # pytest's exit code; a test that is not there or does not import has another


def shows(guard: dict[str, str]) -> str:
    """Say how the test of a guard ended with its place broken: "fails" is what it has to do."""
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
