"""A plan as files: its record, its rows, what undoes it, and how it is kept, read without trust and held to its id."""
