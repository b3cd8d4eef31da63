"""The undo of deletions: what was committed then is held against what is now, shown, and put back.

    selection  which groups and topics are asked for
    sources    where values come from: a plan's undo file, a plan's ledger, the archive at any instant
    judge      what would happen to each offset, by the coordinator's own rules for commits
    make       the diff of a source and a cluster: a RestorePlan
    rows, keep what it says, and how the archive keeps it
    apply      carries it out, with the ledger of execution
    port       what all of that needs of a cluster; cluster.py is the one with a broker behind it

Not here: who may approve a restore (dags/restore_offsets.py), and deleting (execution).
"""
