"""Checkpoints: a fold as tables (tables), as files (files), validated (checks) and rebuilt (restore)."""
