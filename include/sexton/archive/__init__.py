"""Our append-only archive of `__consumer_offsets`: its files, manifests, lineages, snapshots and cuts."""
