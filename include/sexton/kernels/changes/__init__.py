"""Why an offset changed, compiled: `coordinator.changes` over whole segments."""
