"""Restores committed offsets: earlier values are compared with the current ones, shown, and put back.

    selection      which groups and topics are asked for
    sources        where values come from: a plan's undo file, a plan's ledger, the archive at any instant
    diff           what would happen to each offset, by the coordinator's own rules for commits: a RestorePlan
    restore_plan   what a RestorePlan says, and how the archive keeps it
    apply_restore  carries it out
    keep           values that holds keep alive, though the broker would expire them
    swept          values that the broker has expired, though holds keep them

Not here: who may approve a restore (dags/restore_offsets.py).
"""
