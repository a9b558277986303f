"""What the jobs that are not done yet cost, before any of them starts."""
