"""The rules of `coordinator`, compiled with numba and applied to whole segments: from bytes to Arrow tables.

A rule is in the module of the same name in both packages: decoding, loading, offsets, endless_load, changes.replay.
Functions that both packages have bear the same names.

    scan -> inflate -> decoding -> loading -> offsets     bytes of a segment to the state of a fold (fold, partial_fold)
    merge                                                 joins folds of adjacent slices
    buckets                                               splits a fold by group id
    divide                                                splits a log by group id before it is folded
    group_records, sorted_rows, columns -> results        the state to tables
    slow_path                                             records that the compiled loop does not accept
    layout, growth, index, pending_rows                   columns, memory, hash tables
    canonical, checkpoint                                 a fold as tables and files
    changes                                               what changed between two cuts
    encode_keys, encode_batches                           the keys and record batches of planned tombstones

Expiry is not here: `verdicts.expiry` judges the tables. `warm_up` compiles everything ahead of time.
"""
