"""The memory of a process tree: the largest process, and all of them with shared pages counted once."""

import sys

import pytest

from tests.bench.watch import ROLLUP, run_watched

MIB = 1 << 20
FORKED = """
import os, time
kept = bytearray(100 << 20)  # filled in pieces: it is never there twice
for at in range(0, len(kept), 1 << 20):
    kept[at : at + (1 << 20)] = os.urandom(1 << 20)
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        total = sum(kept[:: 4096])
        time.sleep(2)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
print("done")
"""


@pytest.mark.skipif(not ROLLUP.exists(), reason="this system does not tell which pages are shared")
def test_pages_that_forked_processes_share_count_once() -> None:
    watched = run_watched([sys.executable, "-c", FORKED])
    assert watched.output == "done\n"
    assert 100 * MIB < watched.process_bytes < 200 * MIB
    assert 100 * MIB < watched.tree_bytes < 200 * MIB, "four processes have the same 100 MB"


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="ended with code 3: no log"):
        run_watched([sys.executable, "-c", "import sys; sys.stderr.write('no log'); sys.exit(3)"])
