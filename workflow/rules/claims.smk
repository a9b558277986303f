# The claims ledger: what the papers say, tried on the scores.
