"""The rules of `coordinator`, compiled with numba over whole segments: from bytes to Arrow tables.

A rule has the same module and function name in both: decoding, loading, offsets, endless, changes.replay.

    scan -> inflate -> decoding -> loading -> offsets     bytes of a segment to the state of a fold (fold)
    merge                                                 joins folds of neighbouring parts
    group_records, sorted_rows -> results                 the state to tables
    slow_path                                             records that compiled code is not sure of
    layout, growth, index, pending_rows                   columns, memory, hash tables
    checkpoint                                            a fold as tables and files

Expiry is not here: `verdicts.expiry` judges the tables. `warm_up` compiles everything ahead of time.
"""
