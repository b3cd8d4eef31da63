"""The coordinator's fold compiled with numba over whole segments, from bytes to Arrow: `coordinator`, made fast.

`fold.fold_task` folds a piece of a log partition, `fold.merge` joins neighbours and `state.finish` makes the tables;
`sweep` is the expiry sweep over those tables. Whatever is odd in the bytes goes to `log` and `coordinator`, which name
it. `warm_up.warm_up` compiles all of it ahead of time.
"""
