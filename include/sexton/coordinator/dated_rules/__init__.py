"""Changes of the coordinator from release to release: a module with a table for each profile."""
