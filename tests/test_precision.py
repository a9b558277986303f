"""bf16 is computed where a machine multiplies it faster, and fp32 elsewhere."""

import pytest
import torch

from engine.precision import computed_in, mixed_precision


@pytest.mark.parametrize(
    ("tiles", "products", "device", "expected"),
    [
        (False, False, "cpu", "fp32"),
        (True, False, "cpu", "bf16"),
        (False, True, "cpu", "bf16"),
        (False, False, "cuda", "bf16"),
    ],
)
def test_bf16_where_the_machine_has_it(tiles, products, device, expected, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: tiles)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: products)
    assert computed_in("bf16", device) == expected
    assert computed_in("fp32", device) == "fp32"
    if device == "cpu":
        left, right = torch.ones(2, 3), torch.ones(3, 2)
        for asked in ("bf16", "fp32"):
            with mixed_precision(asked, device):
                product = left @ right
            assert product.dtype == {"bf16": torch.bfloat16, "fp32": torch.float32}[computed_in(asked, device)]
