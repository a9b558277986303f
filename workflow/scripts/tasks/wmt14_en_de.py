"""WMT14, English to German."""

from tasks.wmt14 import (
    gold_of,
    inputs_of,
    metrics,
    read_dev,
    read_gold,
    read_predictions,
    read_test,
    write_predictions,
)

__all__ = ["gold_of", "inputs_of", "read_dev", "read_gold", "read_predictions", "read_test", "write_predictions"]

METRICS = metrics("de")
