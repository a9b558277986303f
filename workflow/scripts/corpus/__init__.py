"""Text before training: reading and writing it, and what cleaning asks of it."""
