"""The page docs/dags.md, made from the DAGs themselves: `python -m tests.docs.dags_page docs/dags.md`.

It stands here and not in the package because only a test may load DAG files as Airflow does.
"""

import json
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from sexton.settings import PROJECT_ROOT

_HEAD = """# DAGs

Use this page to trigger a DAG: it lists what each DAG does, its schedule, its tasks and the fields of its trigger
form. The page is generated from `dags/` by `python -m tests.docs.dags_page docs/dags.md`; Airflow shows more about each
DAG (*Docs*).

All DAGs are safe to run again: they skip finished work. Airflow retries a task only after exit code 1 of its job. If
the archive does not cover the instant ([coverage](time.md#what-can-be-answered)), the task is skipped. If some input
cannot be decoded, the task succeeds and raises an alert. Every other failure is final ([exit
codes](cli.md#exit-codes)). Options that are not in a form are [settings](settings.md).

To trigger a DAG from the command line, pass the fields as JSON:

    airflow dags trigger offset_retention --conf '{"as_of": "2026-11-21T06:00:00Z", "retention_minutes": 10080}'
"""
_ABOUT = {
    "offset_retention": "See [time](time.md) for the instant that it describes, and [policy](policy.md) for the rules.",
    "offset_history": "See [backfill](how-to/backfill.md) for the steps.",
    "maintenance": "See [maintenance](maintenance.md) for what each task does and keeps.",
    "audit_replicas": "See [replicas](replicas.md) for what it finds, and what to do about it.",
    "audit_transactions": "See [transactions](transactions.md) for the verdicts, and what to do about them.",
    "audit_lag": "See [lag](lag.md) for what the numbers mean.",
    "apply_tombstones": "See [approval](approval.md) for who approves, and [apply](apply.md) for what is checked.",
    "restore_offsets": "See [approval](approval.md) for who approves, and [restore](restore.md) for every case.",
    "keep_offsets": "See [keep](keep.md) for what it keeps, and how.",
    "approve_keep": "See [keep](keep.md#standing-approval) for what it asks for, and "
    "[approval](approval.md#approved-once-for-many-runs) for who approves.",
}


def page(dags: dict[str, Any]) -> str:
    """The whole page, of the DAGs by their ids."""
    return _HEAD + "".join(_section(dags[name]) for name in _ABOUT)


@cache
def load() -> dict[str, Any]:
    """The DAGs as Airflow loads them, under the settings that are in force."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(PROJECT_ROOT / "dags"))
    assert not bag.import_errors, bag.import_errors
    return dict(bag.dags)


def _section(dag: Any) -> str:
    rows = "".join(_row(name, dag.params.get_param(name)) for name in dag.params)
    return (
        f"\n## {dag.dag_id}\n\n{dag.description}. {_ABOUT[dag.dag_id]}\n\n"
        f"Schedule: {_schedule(dag)}. Tasks: {_edges(dag)}.\n"
        + (f"\n| field | value | default | meaning |\n|---|---|---|---|\n{rows}" if rows else "")
    )


def _schedule(dag: Any) -> str:
    cron = getattr(dag.timetable, "expression", None) or getattr(dag.timetable, "_expression", None)
    if "Asset" in type(dag.timetable).__name__:
        return "after `offset_retention` has published a new newest instant ([settings](settings.md))"
    return f"`{cron}` (UTC)" if cron else "none (manual runs only)"


def _edges(dag: Any) -> str:
    """A chain as one, any other shape by its arrows."""
    order = [task.task_id for task in dag.topological_sort()]
    after = {name: sorted(dag.task_dict[name].downstream_task_ids, key=order.index) for name in order}
    if all(after[name] == [follower] for name, follower in pairwise(order)):
        return f"`{' >> '.join(order)}`"
    waited_for = {name for names in after.values() for name in names}
    arrows = [f"{name} >> {', '.join(names)}" for name, names in after.items() if names]
    alone = [name for name in order if not after[name] and name not in waited_for]
    return ", ".join(f"`{text}`" for text in [*arrows, *alone])


def _row(name: str, param: Any) -> str:
    schema = param.schema
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    value = " or ".join(schema.get("enum") or [kind for kind in kinds if kind != "null"])
    default = "none" if param.value in (None, "", []) or not param.has_value else f"`{_text(param.value)}`"
    text = f"{schema['title']}. {param.description}".replace("|", "\\|")
    return f"| `{name}` | {value} | {default} | {text} |\n"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def main(target: Path) -> None:
    target.write_text(page(load()), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.docs.dags_page docs/dags.md")
    main(Path(sys.argv[1]))
