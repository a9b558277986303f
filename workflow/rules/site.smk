# The same results for a browser: results/index.html, and Snakemake's report.
