"""Restores committed offsets: earlier values are compared with the current ones, shown, and put back.

    selection      which groups and topics to restore
    sources        where values come from: a plan's undo file, a plan's ledger, the archive at any instant
    diff           what would happen to each offset, by the coordinator's own rules for commits: a RestorePlan
    restore_plan   a RestorePlan, its restore_id, and its file in the archive
    apply_restore  carries out a RestorePlan
    keep           values of offsets under holds that the broker would soon expire
    swept          values of offsets under holds that the broker has expired

Not here: who may approve a restore (dags/restore_offsets.py).
"""
