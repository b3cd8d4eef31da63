"""Upcoming expirations (forecast), and deletions under other rules (what-if)."""
