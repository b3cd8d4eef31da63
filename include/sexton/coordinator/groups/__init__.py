"""The kinds of groups, a module each, and the groups of a log partition replayed record by record."""
