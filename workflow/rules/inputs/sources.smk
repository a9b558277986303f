def download_id(wildcards):
    path = f"{RAW}/{wildcards.path}"
    if path not in DATASET_OF:
        raise WorkflowError(f"{path}: no row of config/datasets.tsv has this path")
    return DATASET_OF[path].id


def download_digest(wildcards):
    """A download is done again when its address or its published checksum changes, not when a mirror does."""
    dataset = PLAN.datasets[download_id(wildcards)]
    return common.identity.digest([dataset.url, dataset.sha256])


def download_world(wildcards):
    return f"{S}/world/MANIFEST.tsv" if WORLD else []
