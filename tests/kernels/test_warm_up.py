"""What compiles ahead of time compiles everything, and a change of any source makes the cache stale."""

import ast
import pickle
import runpy
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import numba
import pytest
from numba.core import config

from sexton.jit import compiled
from sexton.kernels import columns, commit_rows, encode_batches, encode_keys, growth, inflate, loading, merge, scan
from sexton.kernels.checkpoint import restore
from sexton.kernels.codecs import zstd
from sexton.kernels.warm_up import warm_up

PACKAGE = Path(compiled.__file__).parents[1]
DECORATORS = {"compiled", "inlined"}
ENTRIES = [
    columns._gather, columns._gather_canonical, columns._write_ids, commit_rows._read, encode_batches._divide,
    encode_batches._write_headers, encode_batches._write_records, encode_keys._write_numbers,
    encode_keys._write_texts, inflate._inflate_rows, merge._absorb,
    merge.count_live_keys, loading.fold_batches, scan.open_batches, restore._restore_groups, restore._restore_keys,
    restore._restore_producers, restore._restore_pending, growth.fill_group_slots, growth.fill_key_slots,
    growth.fill_producer_slots, growth.move_texts, zstd._join, zstd._split,
]  # fmt: skip


def test_every_entry_is_compiled_for_one_kind_of_arrays() -> None:
    """In a process of its own: other tests call these with what no log gives them."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(_compiled_for_several_kinds).result() == []


def test_what_is_compiled_is_loaded_without_what_only_a_compilation_needs() -> None:
    """In a process of its own, after one that has compiled what was not yet."""
    for once in (warm_up, _loaded_registries):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found = pool.submit(once).result()
    assert found == set()


def _loaded_registries() -> set[str]:
    warm_up()
    return {"numba.np.linalg", "numba.typed.typeddict"} & set(sys.modules)


def _compiled_for_several_kinds() -> list[str]:
    warm_up()
    return [entry.__name__ for entry in ENTRIES if len(entry.nopython_signatures) != 1]


def test_all_compiled_functions_share_the_stamp_of_all_sources() -> None:
    found = 0
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(("sexton", *path.relative_to(PACKAGE).with_suffix("").parts))
        if name.split(".")[1] in compiled.SHARED and "sexton.jit.compiled import" in path.read_text("utf-8"):
            assert path in compiled._SOURCES
            for function in vars(import_module(name)).values():
                if hasattr(function, "py_func") and function.__module__ == name:
                    assert function._cache._cache_file._source_stamp == compiled._STAMP
                    found += 1
    assert found > len(ENTRIES)


def test_code_elsewhere_is_stale_when_its_own_file_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no function has moved to another line, which numba's index is named after."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "elsewhere.py"
    for number in (1, 2):
        source.write_text(f"from sexton.jit.compiled import compiled\n@compiled\ndef f():\n    return {number}\n")
        compiled._stamp_of.cache_clear()  # as a new process has it
        f = runpy.run_path(str(source))["f"]
        assert f() == number
        assert list((tmp_path / "cache").rglob("*.nbi"))


def test_compiled_code_takes_what_it_needs_from_where_a_change_makes_it_stale() -> None:
    """From its own file, or from the shared packages: their constants become part of the code."""
    found = 0
    for path in PACKAGE.rglob("*.py"):
        if "sexton.jit.compiled import" in (source := path.read_text("utf-8")):
            for name, module in _taken_from(ast.parse(source)):
                assert module.split(".")[1] in compiled.SHARED, (path, name)
                found += 1
    assert found


def _taken_from(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that compiled functions of a module use of this package, and the modules that have them."""
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("sexton")
        for alias in node.names
    }
    constants = {
        name: _names(node.value) for node in tree.body if isinstance(node, ast.Assign) for name in _names(*node.targets)
    }
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and DECORATORS & _names(*node.decorator_list):
            used = _names(*node.body)
            used = used.union(*(constants.get(name, ()) for name in used))
            yield from ((name, module) for name, module in imported.items() if name in used)


def _names(*nodes: ast.AST) -> set[str]:
    return {one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name)}


def test_an_index_that_names_a_module_that_is_gone_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba unpickles the types of a cached function before it compares stamps."""
    gone = ModuleType("gone")
    gone.Rows = type("Rows", (), {"__module__": "gone"})  # type: ignore[attr-defined]
    with monkeypatch.context() as before:
        before.setitem(sys.modules, "gone", gone)
        overloads = pickle.dumps((compiled._STAMP, {gone.Rows: "f.1.nbc"}))
    (tmp_path / "f.nbi").write_bytes(pickle.dumps(numba.__version__) + overloads)
    assert compiled._CacheFile(str(tmp_path), "f", compiled._STAMP)._load_index() == {}
