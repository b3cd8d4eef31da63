"""A fold as tables: made (tables), written and read as bytes (files), checked (checks) and put back (restore)."""
