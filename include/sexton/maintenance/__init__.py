"""Keeping house: what is done every day to what runs have left. Nothing here changes the cluster.

    verify    a part of the archive's bytes, so that in some runs all is read
    thin      published runs that the policy (keeping.py) lets go: their rows and their checkpoints
    tidy      Iceberg's old snapshots, branches that were left, small files; old run folders (folders.py)
    recheck   increments: the newest checkpoint held against a full replay, every week
    drill     the archive folded, and held against what the live brokers answer (answers.py: both sides of that)

Each step is a module with a function `run` and a small result, whose `alerts` are for people. What removes anything
only says what it would do unless it is told to. spark_jobs/keep_house.py runs them.
"""
