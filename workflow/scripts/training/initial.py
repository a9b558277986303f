"""The weights that a run starts from: those of another run, fitted to its shape."""

import sys
from pathlib import Path

from torch import Tensor, nn

from common.errors import UserError
from engine.assembly import decoder_of_veco
from engine.checkpoint import described_model, load_weights
from engine.config import InitConfig
from engine.from_foreign import without_token_types
from engine.prenorm import PreNormConfig
from engine.shape import ModelConfig


def load_initial_weights(
    model: nn.Module, init: InitConfig, path: Path | None, vocabulary_sha256: str | None = None
) -> dict[str, str]:
    """Copy another run's weights; every weight that is not copied must have been announced as fresh. The metadata of
    the file."""
    if path is None:
        raise UserError(f"the run starts from run {init.run}: give its weights with --init")
    given, metadata = load_weights(path)
    if init.run_hash and metadata.get("run_hash") != init.run_hash:
        raise UserError(
            f"{path}: weights of run {metadata.get('run', '?')} ({metadata.get('run_hash', 'no hash')}), not of "
            f"{init.run} ({init.run_hash}); train {init.run} again"
        )
    known = metadata.get("vocabulary_sha256")
    if known and vocabulary_sha256 and known != vocabulary_sha256:
        mend = f"train {init.run} again at this scale, or give the vocabulary that it was trained with"
        if "checkpoint" in metadata:
            mend = f"in the scale write vocabulary: {{of: {init.run}}}"
        raise UserError(
            f"{path}: of another vocabulary (sha256 {known}) than the text is encoded with ({vocabulary_sha256}); "
            f"{mend}"
        )
    given = fitted(given, metadata, model.encoder.config, path)
    own = model.state_dict()
    if init.decoder:
        given = given | decoder_of_veco(given, model.encoder.config, len(model.decoder.blocks), init.decoder)
    fresh = {name for name in own if name.startswith(init.fresh)} if init.fresh else set()
    missing = sorted(set(own) - fresh - set(given))
    shapes = [
        f"{name} {list(given[name].shape)} -> {list(own[name].shape)}"
        for name in sorted(set(own) & set(given) - fresh)
        if given[name].shape != own[name].shape
    ]
    if missing or shapes:
        problems = [f"not in the file: {', '.join(missing)}"] if missing else []
        problems += [f"of another shape: {', '.join(shapes)}"] if shapes else []
        raise UserError(f"{path}: cannot start from it: {'; '.join(problems)}. What is new belongs into init.fresh")
    copied = {name: tensor for name, tensor in given.items() if name in own and name not in fresh}
    model.load_state_dict(own | copied)
    unused = sorted({name.split(".")[0] for name in set(given) - set(copied)})
    print(
        f"copied {len(copied)} weights of {path}; fresh: {', '.join(init.fresh) or 'none'}; "
        f"not used: {', '.join(unused) or 'none'}",
        file=sys.stderr,
    )
    return metadata


def fitted(given: dict[str, Tensor], metadata: dict[str, str], model: ModelConfig, path: Path) -> dict[str, Tensor]:
    """The weights for the run's own shape: what no shape of a tensor shows must be equal, and the vector that every
    token of XLM-R gets goes into the positions of a model without token types."""
    if "model" not in metadata:
        raise UserError(f"{path}: the file does not describe its model (no `model` in its metadata); train it again")
    described = described_model(metadata, path)
    if isinstance(described, PreNormConfig):
        raise UserError(f"{path}: {described.pre_norm} normalises before its sublayers; no run can start from it")
    for key in ("heads", "layer_norm_eps"):
        if getattr(described, key) != getattr(model, key):
            raise UserError(
                f"{path}: cannot start from it: model.{key} is {getattr(described, key)} there and "
                f"{getattr(model, key)} in the run; set it to {getattr(described, key)}"
            )
    if described.relative_bias and model.relative_bias:
        for key in ("max_distance", "gate_input"):
            there, here = getattr(described.relative_bias, key), getattr(model.relative_bias, key)
            if there != here:
                raise UserError(
                    f"{path}: cannot start from it: model.relative_bias.{key} is {there} there and {here} in the run; "
                    f"set it to {there}"
                )
    if not model.token_types and described.token_types > 1:
        raise UserError(
            f"{path}: cannot start from it: it tells {described.token_types} sides of a pair apart; set "
            f"model.token_types to {described.token_types}"
        )
    return given if model.token_types or not described.token_types else without_token_types(given)
