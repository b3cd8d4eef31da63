"""What changed in the coordinator from release to release: one module for each profile, one table in each."""
