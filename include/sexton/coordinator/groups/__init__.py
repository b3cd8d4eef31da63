"""The kinds of groups, one module each, and the groups of a log partition (groups.py)."""
