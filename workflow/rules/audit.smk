# The audit: every derived number of the papers computed again from the numbers that they print.
