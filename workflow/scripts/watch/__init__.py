"""What a run of the workflow is doing, for the person who waits for it."""
