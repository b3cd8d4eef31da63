"""What was tried on a cluster and what came of it: an append-only file for each plan, and its table in the lake."""
