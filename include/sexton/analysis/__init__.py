"""What expires next (forecast), and what other rules would delete (what-if)."""
