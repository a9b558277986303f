# A machine on which every rule runs; the repository itself is mounted, so that an edit needs no new image.
#   docker build --tag parallax .
#   docker run --rm --volume "$PWD:/work" --user "$(id -u):$(id -g)" parallax snakemake --cores all -- results/tables/all.pdf
# On a cluster: docker save parallax | gzip > parallax.tar.gz; apptainer build parallax.sif docker-archive:parallax.tar.gz
# For GPUs add --gpus all (docker) or --nv (apptainer): torch brings its own CUDA, the machine its driver.
FROM debian:bookworm-slim

# The same packages as .ci/run installs.
RUN apt-get update && \
    apt-get install --yes --no-install-recommends \
        git make poppler-utils python3 python3-venv \
        texlive-latex-base texlive-latex-recommended texlive-fonts-recommended lmodern \
    && rm -rf /var/lib/apt/lists/*

COPY requirements.lock /opt/parallax/
RUN python3 -m venv /opt/parallax/venv && \
    /opt/parallax/venv/bin/pip install --no-cache-dir --requirement /opt/parallax/requirements.lock

# Snakemake and matplotlib keep files of their own and ask for a name; whoever runs the image may have neither home nor name in it.
ENV PATH=/opt/parallax/venv/bin:$PATH HOME=/tmp USER=parallax
WORKDIR /work
CMD ["snakemake", "--list"]
