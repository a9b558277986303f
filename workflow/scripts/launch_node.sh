#!/bin/bash
# One torchrun per node of a Slurm step; `srun` starts this script once on each node.
# Usage: srun --nodes=N --ntasks=N --ntasks-per-node=1 bash workflow/scripts/launch_node.sh GPUS_PER_NODE SCRIPT [ARGUMENT...]
set -euo pipefail
if [ $# -lt 2 ] || [ "$1" = --help ]; then
    sed -n '2,3s/^# //p' "$0"
    [ "${1-}" = --help ] && exit 0 || exit 2
fi
gpus=$1
shift
first=$(scontrol show hostnames "${SLURM_STEP_NODELIST:-$SLURM_JOB_NODELIST}" | head -n1)
# A node's name need not resolve on the other nodes; its address does.
address=$(scontrol show node -o "$first" | grep -oP 'NodeAddr=\K\S+' || true)
exec torchrun --nnodes="$SLURM_NNODES" --node-rank="$SLURM_NODEID" --nproc-per-node="$gpus" \
    --master-addr="${address:-$first}" --master-port=$((20000 + SLURM_JOB_ID % 20000)) "$@"
