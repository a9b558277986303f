"""The plan: read and check the configuration, and derive from the tables what has to be computed."""
