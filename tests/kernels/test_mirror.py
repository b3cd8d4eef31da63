"""A rule can be followed from its plain form to its compiled one: the same module and function names, and each module
names the other."""

from importlib import import_module

import pytest

MIRRORS = {
    ("coordinator.decoding", "kernels.decoding"): {"decode": "_decode"},
    ("coordinator.loading", "kernels.loading"): {
        "replay_record": "_replay_records",
        "_replay_offset": "_replay_offset",
        "_replay_group": "replay_group",
        "_is_pending": "_is_pending",
    },
    ("coordinator.offsets", "kernels.offsets"): {
        "Offsets.put": "put_pending",
        "Offsets.remove": "remove",
        "ScalaOffsets.remove": "remove_stored",
        "Offsets.end_transaction": "end_transaction",
    },
    ("coordinator.endless_load", "kernels.endless_load"): {"Endless": "endless_of"},
    ("coordinator.partitioner", "kernels.text"): {"partition_of": "partition_of"},
    ("coordinator.changes.replay", "kernels.changes.replay"): {"changes": "changes_between"},
    ("coordinator.expiry", "verdicts.expiry"): {
        "verdict": "judge_unblocked", "sweep_block": "sweep_block", "_due": "_due",
    },
}  # fmt: skip
"""Plain and compiled module: by plain name the compiled one."""


def _has(module: object, name: str) -> bool:
    found: object | None = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None


@pytest.mark.parametrize(("plain", "fast"), MIRRORS, ids=lambda name: name)
def test_a_rule_has_both_forms_and_each_names_the_other(plain: str, fast: str) -> None:
    plainly, compiled = import_module(f"sexton.{plain}"), import_module(f"sexton.{fast}")
    assert fast.removesuffix(".replay") in (plainly.__doc__ or "")
    assert plain in (compiled.__doc__ or "")
    assert [name for name in MIRRORS[plain, fast] if not _has(plainly, name)] == []
    assert [name for name in MIRRORS[plain, fast].values() if not _has(compiled, name)] == []
