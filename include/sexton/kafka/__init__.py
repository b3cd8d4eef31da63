"""Everything with a socket: embedded broker, client settings, the raw fetch, and what only a live cluster can tell."""
