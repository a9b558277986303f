"""benchmarks/state_dimensions.py: in how many directions the states of an encoder spread."""

import pytest
import torch

from beside import module_at
from common.errors import UserError
from engine.checkpoint import describe_model, save_weights
from engine.heads import encode
from engine.model import Encoder
from engine.rows import sentence_rows
from engine.shape import ModelConfig
from engine.tokenizer import load_tokenizer

SENTENCES = [f"the {first} {second}" for first in ("big", "small", "old") for second in ("house", "river", "tree")]


@pytest.fixture(scope="module")
def tool(repository):
    return module_at(repository / "benchmarks/state_dimensions.py")


@pytest.mark.parametrize("axes", [1, 2, 7])
def test_equal_variances_along_some_axes_are_so_many_dimensions(tool, axes):
    """Turned and moved: neither the choice of axes nor the mean counts."""
    turned = torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]
    corners = torch.cat([torch.eye(axes, 16), -torch.eye(axes, 16)]).double()
    assert tool.dimensions(corners @ turned + 5) == pytest.approx(axes)


def test_unequal_variances_are_fewer(tool):
    states = torch.diag(torch.tensor([3.0, 1.0]))  # variances around the mean lie along one axis
    assert tool.dimensions(torch.cat([states, -states])) == pytest.approx((9 + 1) ** 2 / (81 + 1))


def test_the_states_of_every_real_token_count_layer_by_layer(tool, corpus, tmp_path, monkeypatch, capsys):
    tokenizer = load_tokenizer(corpus / "spm.model")
    config = ModelConfig(
        layers=2, width=32, heads=2, ffn=64, positions=66, vocabulary=tokenizer.vocabulary_size, dropout=0.0
    )
    torch.manual_seed(0)
    encoder = Encoder(config).eval()
    model, text = tmp_path / "model.safetensors", tmp_path / "lines.txt"
    weights = {f"encoder.{name}": value for name, value in encoder.state_dict().items()}
    save_weights(model, weights, {"model": describe_model(config)})
    text.write_text("\n".join(SENTENCES) + "\n\n", encoding="utf-8")

    given = ["--spm", str(corpus / "spm.model"), "--text", str(text), "--lines", "7"]
    monkeypatch.setattr("sys.argv", ["state_dimensions.py", str(model), *given])
    monkeypatch.setattr(tool, "ROWS", 3)
    tool.main()
    path, *values = capsys.readouterr().out.split()

    with torch.no_grad():
        rows = sentence_rows(tokenizer, SENTENCES[:7], 64)
        apart = [encode(encoder, [row], ["en"], all_layers=True)[0] for row in rows]
    expected = [tool.dimensions(torch.cat([states[layer][0] for states in apart])) for layer in range(3)]
    assert path == str(model) and [float(value) for value in values] == pytest.approx(expected, abs=0.051)


def test_a_text_without_lines_is_refused(tool, corpus, tmp_path, monkeypatch):
    (tmp_path / "empty.txt").write_text("\n")
    given = ["model", "--spm", str(corpus / "spm.model"), "--text", str(tmp_path / "empty.txt")]
    monkeypatch.setattr("sys.argv", ["state_dimensions.py", *given])
    with pytest.raises(UserError, match="no sentences; give a file with one a line"):
        tool.main()
