"""What a group coordinator does with the bytes of __consumer_offsets, in plain Python: load, expire, delete.

One module a profile (`group_coordinator`: 4.x). Slow and readable; `kernels` does the same to whole segments and must
agree with it on every generated log. Here are rules only: no clock, no network, no tables.
"""
