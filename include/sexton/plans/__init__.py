"""Plans as files: what would be deleted, why, and what undoes it.

plan           plan.json (PlanRecord) and the columns of the tables
plan_content   computes a plan from the tables of a run
limits         what a plan may remove at most
write_plan     writes a plan, and keeps it in the archive
read_plan      reads a plan: names, links, hashes
check_content  whether a plan agrees with itself: order, keys, plan_id, undo, batches
"""
