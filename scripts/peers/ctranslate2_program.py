"""Translate with CTranslate2 and the weights of a Transformer that this toolkit trained. Runs in CTranslate2's
environment, without this toolkit: ``convert RUN FOLDER``, ``translate FOLDER SOURCE OUTPUT BEAM PRECISION THREADS``.
"""

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import numpy.typing as npt
import sentencepiece
import yaml
from ctranslate2.specs import TransformerSpec
from safetensors.numpy import load_file

LONGEST = 1024
"""Positions of the table of sines and cosines."""
Weights = Mapping[str, npt.NDArray[np.float32]]


def convert(run: str, folder: str) -> None:
    """Write the best checkpoint of a run. Exits with a message if it is no Transformer with pre-norm layers, sinusoidal
    positions and one tied embedding."""
    path = Path(run)
    weights = load_file(path / "checkpoints/best/model.safetensors")
    model = yaml.safe_load((path / "config.yaml").read_text("utf-8"))["model"]
    encoder = model["encoder"]
    kind = {"type": "transformer", "norm": "pre", "positions": {"type": "sinusoidal"}}
    same = encoder | {"dropout": None} == model["decoder"] | {"dropout": None}
    if not (same and encoder | kind == encoder and model["embeddings"]["tie"] == "all"):
        sys.exit(
            f"{run}: not a Transformer whose encoder and decoder are alike, with norm: pre, sinusoidal positions "
            "and embeddings.tie: all"
        )
    spec = TransformerSpec.from_config(encoder["layers"], encoder["heads"], pre_norm=True)
    embedding = weights["source_embedding.weight"]
    for side, layers in ((spec.encoder, spec.encoder.layer), (spec.decoder, spec.decoder.layer)):
        name = "encoder" if side is spec.encoder else "decoder"
        (side.embeddings[0] if name == "encoder" else side.embeddings).weight = embedding
        side.scale_embeddings = True
        side.position_encodings.encodings = sinusoids(embedding.shape[1])
        norm(side.layer_norm, weights, f"{name}.norm")
        for index, layer in enumerate(layers):
            its = f"{name}.layers.{index}"
            norm(layer.self_attention.layer_norm, weights, f"{its}.around_self_attention.norm")
            linear(layer.self_attention.linear[0], weights, f"{its}.self_attention.projection")
            linear(layer.self_attention.linear[1], weights, f"{its}.self_attention.output")
            norm(layer.ffn.layer_norm, weights, f"{its}.around_feed_forward.norm")
            linear(layer.ffn.linear_0, weights, f"{its}.feed_forward.inner")
            linear(layer.ffn.linear_1, weights, f"{its}.feed_forward.output")
            if name == "decoder":
                norm(layer.attention.layer_norm, weights, f"{its}.around_attention.norm")
                parts = ("queries", "keys_values", "outputs")
                for place, part in zip(layer.attention.linear, parts, strict=True):
                    linear(place, weights, f"decoder.attention.{part}.{index}")
    spec.decoder.projection.weight, spec.decoder.projection.bias = embedding, weights["output.bias"]
    for side in ("source", "target"):
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(path / f"tokenizer/{side}.model"))
        names = [pieces.id_to_piece(number) for number in range(len(pieces))]
        (spec.register_source_vocabulary if side == "source" else spec.register_target_vocabulary)(names)
        (Path(folder).parent / f"{side}.model").write_bytes((path / f"tokenizer/{side}.model").read_bytes())
    special = {"unk": pieces.unk_id(), "bos": pieces.bos_id(), "eos": pieces.eos_id()}
    for name, number in special.items():
        setattr(spec.config, f"{name}_token", names[number])
    spec.config.decoder_start_token = names[pieces.bos_id()]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = 1e-5
    spec.validate()
    spec.optimize()
    Path(folder).mkdir(parents=True, exist_ok=True)
    spec.save(folder)


def norm(place: Any, weights: Weights, name: str) -> None:
    """Set a layer normalization."""
    place.gamma, place.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def linear(place: Any, weights: Weights, name: str) -> None:
    """Set a linear layer."""
    place.weight, place.bias = weights[f"{name}.weight"], weights[f"{name}.bias"]


def sinusoids(width: int) -> npt.NDArray[np.float32]:
    """The table of Vaswani et al. 2017, section 3.5, sines and cosines alternating: (LONGEST, width)."""
    angle = np.arange(LONGEST)[:, None] * np.exp(np.arange(0, width, 2) * (-math.log(10000) / width))
    return np.stack((np.sin(angle), np.cos(angle)), -1).reshape(LONGEST, width).astype(np.float32)


def translate(folder: str, source: str, output: str, beam: str, precision: str, threads: str) -> None:
    """Translate a file: one translator whose threads share each batch, batches of 64 sentences of like length."""
    above = Path(folder).parent
    pieces = {
        side: sentencepiece.SentencePieceProcessor(model_file=str(above / f"{side}.model"))
        for side in ("source", "target")
    }
    translator = ctranslate2.Translator(folder, compute_type=precision, intra_threads=int(threads))
    results = translator.translate_batch(
        [pieces["source"].encode(line, out_type=str) for line in read_lines(source)],
        beam_size=int(beam),
        max_batch_size=64,
        length_penalty=1.0,
        max_decoding_length=256,
    )
    texts = [pieces["target"].decode(result.hypotheses[0]) for result in results]
    Path(output).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def read_lines(path: str) -> list[str]:
    """Read the lines of a file that has some. A line ends with a line feed and nothing else does, as in the toolkit."""
    return Path(path).read_bytes().decode("utf-8").removesuffix("\n").split("\n")


if __name__ == "__main__":
    if sys.argv[1] == "convert":
        convert(*sys.argv[2:])
    else:
        translate(*sys.argv[2:])
