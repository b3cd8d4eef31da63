"""What a group coordinator does with the bytes of __consumer_offsets, in plain Python: load, expire, delete.

Slow and readable; `kernels` does the same to whole segments and must agree on every generated log. There are rules
only: no clock, no network, no files. A record goes loading -> decoding -> offsets or groups -> expiry -> tombstones.

profile, profiles, releases   what a release may differ in, profiles by name, the comparison of releases
dated_rules/                  what each release of Kafka changed
groups/                       one module for each kind of group
changes/                      why an offset changed
api/                          what a coordinator would answer, from the plain replay or from a run's tables
"""
