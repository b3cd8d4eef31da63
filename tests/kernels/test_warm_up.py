"""What compiles ahead of time compiles everything, and a change of any source makes the cache stale."""

import pickle
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import numba
import pytest

from sexton.jit import compiled, memory
from sexton.kernels import apply, columns, decode, inflate, merge, replay, scan, text
from sexton.kernels import checkpoint as store
from sexton.kernels import layout as table
from sexton.kernels.codecs import lz4, snappy, zstd
from sexton.kernels.warm_up import warm_up

ENTRIES = [
    columns._gather,
    columns._gather_canonical,
    columns._write_ids,
    inflate._inflate_rows,
    merge._absorb,
    merge.count_live_keys,
    replay.fold_batches,
    scan.open_batches,
    store._restore_groups,
    store._restore_keys,
    store._restore_producers,
    store._restore_pending,
    table.fill_group_slots,
    table.fill_key_slots,
    table.fill_producer_slots,
    table.move_texts,
    zstd._join,
    zstd._split,
]


def test_every_entry_is_compiled_for_one_kind_of_arrays() -> None:
    """In a process of its own: other tests call these with what no log gives them."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(_compiled_otherwise).result() == []


def _compiled_otherwise() -> list[str]:
    warm_up()
    return [entry.__name__ for entry in ENTRIES if len(entry.nopython_signatures) != 1]


def test_all_compiled_functions_share_the_stamp_of_all_sources() -> None:
    names = {path.name for path in compiled._SOURCES}
    for module in (apply, columns, decode, inflate, lz4, memory, merge, replay, scan, snappy, store, table, text, zstd):
        assert Path(str(module.__file__)).name in names
        for found in vars(module).values():
            if hasattr(found, "py_func") and found.__module__ == module.__name__:
                assert found._cache._cache_file._source_stamp == compiled._STAMP


def test_an_index_that_names_a_module_that_is_gone_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba unpickles the types of a cached function before it compares stamps."""
    gone = ModuleType("gone")
    gone.Rows = type("Rows", (), {"__module__": "gone"})  # type: ignore[attr-defined]
    with monkeypatch.context() as before:
        before.setitem(sys.modules, "gone", gone)
        overloads = pickle.dumps((compiled._STAMP, {gone.Rows: "f.1.nbc"}))
    (tmp_path / "f.nbi").write_bytes(pickle.dumps(numba.__version__) + overloads)
    assert compiled._CacheFile(str(tmp_path), "f", compiled._STAMP)._load_index() == {}
