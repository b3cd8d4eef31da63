"""Plans as files: what would be deleted, why, and how to undo it.

plan           plan.json (PlanRecord) and the columns of the tables
plan_content   computes a plan from the tables of a run
limits         the maximum that a plan may remove
write_plan     writes a plan, and keeps it in the archive
read_plan      reads a plan: names, links, hashes
check_content  whether a plan is consistent: order, keys, plan_id, undo, batches
"""
