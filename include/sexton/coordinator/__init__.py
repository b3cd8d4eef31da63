"""The rules of a group coordinator, applied to the bytes of __consumer_offsets in plain Python: load, expire, delete.

Slow and readable; `kernels` implements the same rules for whole segments and must agree on every generated log. Rules
only: no clock, no network, no files. The path of a record: loading -> decoding -> offsets or groups -> expiry ->
tombstones.

profile, profiles, releases   differences between releases, profiles by name, the comparison of releases
dated_rules/                  what each release of Kafka changed
groups/                       one module for each kind of group
changes/                      why an offset changed
api/                          a coordinator's answers, from the plain replay or from a run's tables
"""
