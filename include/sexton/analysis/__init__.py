"""Questions about the future and about other settings: the expiry forecast, a group's outlook, what-if."""
