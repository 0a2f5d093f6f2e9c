"""A Transformer run as a model of CTranslate2, an inference engine in C++ (Klein et al. 2020).

The format of ``model.bin``, little-endian: version, name and revision of the specification; the tensors, each with
name, shape, number format and content; the aliases, names of tensors that are stored under another one.
"""

import io
import json
import re
import struct
from importlib.resources import files
from pathlib import Path
from string import Template
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import numpy.typing as npt
import torch

from nmt.config import schema
from nmt.files import write_bytes, write_text
from nmt.model import Seq2Seq
from nmt.model.multi_head import EncoderDecoderAttention
from nmt.model.transformer import sinusoids
from nmt.runs.loading import LoadedRun, load_run

VERSION, SPECIFICATION, REVISION = 6, "TransformerSpec", 7
TYPES = ("float32", "int8", "int16")
"""Number formats, in the order of their codes."""
POSITIONS = 2048
"""Positions of the table of sines and cosines; CTranslate2 refuses longer sentences."""
NAMES = (
    (r"^source_embedding", "encoder.embeddings_0"),
    (r"^target_embedding", "decoder.embeddings"),
    (r"^output", "decoder/projection"),
    (r"^decoder\.attention\.queries\.(\d+)", r"decoder.layer_\1.attention.linear_0"),
    (r"^decoder\.attention\.keys_values\.(\d+)", r"decoder.layer_\1.attention.linear_1"),
    (r"^decoder\.attention\.outputs\.(\d+)", r"decoder.layer_\1.attention.linear_2"),
    (r"\.layers\.(\d+)", r".layer_\1"),
    (r"\.distance_(keys|values)$", r".relative_position_\1"),
    (r"\.around_", "."),
    (r"\.feed_forward\.", ".ffn."),
    (r"\.(projection|inner)\.", ".linear_0."),
    (r"\.output\.", ".linear_1."),
    (r"\.norm\.weight", ".layer_norm.gamma"),
    (r"\.norm\.bias", ".layer_norm.beta"),
    (r"\.", "/"),
)
"""From the names of our tensors to CTranslate2's: replaced one after the other."""
Tensors = dict[str, npt.NDArray[np.generic]]


def export_ctranslate2(path: str | Path, output: Path) -> None:
    """Write the run of a Transformer as a model directory, with its SentencePiece models and a README. Raises
    FileError for a run that cannot be used."""
    run = load_run(path, torch.device("cpu"))
    data, decoding = run.config.data, run.config.decoding
    output.mkdir(parents=True, exist_ok=True)
    for name, content in exported(run).items():
        write_bytes(output / name, content)
    run.tokenizers.save(output)
    values = {"source": data.source_language, "target": data.target_language, "beam": decoding.beam_size}
    readme = Template(files("nmt.translation").joinpath("ctranslate2.md").read_text("utf-8"))
    write_text(output / "README.md", readme.substitute(values, penalty=decoding.length_penalty))


def export_argos(path: str | Path, output: Path) -> None:
    """Write the run of a Transformer as a package of Argos Translate, a zip archive of one folder, and its README.

    The docstring of ``argostranslate.package.IPackage`` has the format. Raises FileError for an unusable run.
    """
    run = load_run(path, torch.device("cpu"))
    source, target = run.config.data.source_language, run.config.data.target_language
    name = f"translate-{source}_{target}"
    template = Template(files("nmt.translation").joinpath("argos.md").read_text("utf-8"))
    readme = template.substitute(source=source, target=target, package=name)
    metadata = {"package_version": "1.0", "argos_version": "1.11"}
    metadata |= {"from_code": source, "from_name": source, "to_code": target, "to_name": target}
    content = io.BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED) as package:
        package.writestr(f"{name}/metadata.json", json.dumps(metadata))
        package.writestr(f"{name}/README.md", readme)
        package.writestr(f"{name}/sentencepiece.model", run.tokenizers.source.model)
        for file, data in exported(run).items():
            package.writestr(f"{name}/model/{file}", data)
    output.mkdir(parents=True, exist_ok=True)
    write_bytes(output / f"{name}.argosmodel", content.getvalue())
    write_text(output / "README.md", readme)


def exported(run: LoadedRun) -> dict[str, bytes]:
    """Return the files that CTranslate2 reads, by name."""
    target = run.tokenizers.target
    unknown, begin, end = target.pieces([target.unk_id, target.bos_id, target.eos_id])
    special = {"unk_token": unknown, "bos_token": begin, "eos_token": end, "decoder_start_token": begin}
    read = {"add_source_bos": False, "add_source_eos": True, "layer_norm_epsilon": 1e-5}
    texts: dict[str, object] = {"config": special | read}
    texts |= {f"{side}_vocabulary": each.pieces(range(each.size)) for side, each in run.tokenizers.sides()}
    made = {"model.bin": binary(tensors(run.model, run.config.model))}
    return made | {f"{name}.json": json.dumps(text, ensure_ascii=False).encode() for name, text in texts.items()}


def tensors(model: Seq2Seq, section: schema.Model) -> Tensors:
    """Return the tensors of a Transformer by CTranslate2's names; those that are tied share memory."""
    found: Tensors = {}
    for own, tensor in model.state_dict().items():
        name = own
        for ours, theirs in NAMES:
            name = re.sub(ours, theirs, name)
        found[name] = tensor.numpy()
    for side, part in (("encoder", section.encoder), ("decoder", section.decoder)):
        assert isinstance(part, schema.Transformer)
        found[f"{side}/num_heads"] = np.array(part.heads, np.int16)
        found[f"{side}/pre_norm"] = np.array(part.norm == "pre", np.int8)
        found[f"{side}/scale_embeddings"] = np.array(1, np.int8)
        if isinstance(part.positions, schema.SinusoidalPositions):
            table = sinusoids(0, torch.zeros(1, POSITIONS, part.hidden))
            found[f"{side}/position_encodings/encodings"] = table.numpy()
    attention = model.decoder.attention
    assert isinstance(attention, EncoderDecoderAttention)
    found["decoder/alignment_layer"] = np.array(attention.layer, np.int16)
    found["decoder/alignment_heads"] = np.array(attention.heads, np.int16)
    return found


def binary(tensors: Tensors) -> bytes:
    """Return the content of ``model.bin``."""
    stored: dict[int, str] = {}
    parts, aliases = [], []
    for name, tensor in tensors.items():
        if (first := stored.setdefault(tensor.ctypes.data, name)) != name:
            aliases += [_text(name), _text(first)]
            continue
        content = tensor.tobytes()
        parts += [_text(name), struct.pack(f"<B{tensor.ndim}I", tensor.ndim, *tensor.shape)]
        parts += [struct.pack("<BI", TYPES.index(tensor.dtype.name), len(content)), content]
    begin = struct.pack("<I", VERSION) + _text(SPECIFICATION) + struct.pack("<II", REVISION, len(stored))
    return b"".join([begin, *parts, struct.pack("<I", len(aliases) // 2), *aliases])


def _text(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"
