"""Changes of the coordinator from release to release: one module for each profile, with one table each."""
