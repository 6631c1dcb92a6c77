"""GGUF files with metadata and a tokenizer only: tests/data/tokenizers/gguf-*/tokenizer.gguf."""

import json

import gguf
from sentencepiece import sentencepiece_model_pb2

from common import DATA

OUT = DATA / "tokenizers"
# folder: (source folder, tokenizer.ggml.pre)
BYTE_LEVEL = {
    "gguf-llama-bpe": ("llama3", "llama-bpe"),
    "gguf-gpt-2": ("gpt2", "gpt-2"),
    "gguf-smollm": ("smollm", "smollm"),
    "gguf-qwen2": ("qwen2", "qwen2"),
}


def open_writer(folder):
    """A writer with the minimum of metadata that a reader of vocabularies requires."""
    (OUT / folder).mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(OUT / folder / "tokenizer.gguf", "llama")
    writer.add_name(folder)
    writer.add_context_length(512)
    writer.add_embedding_length(64)
    writer.add_block_count(1)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_layer_norm_rms_eps(1e-5)
    return writer


def close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_byte_level(folder, source, pre):
    content = json.loads((OUT / source / "tokenizer.json").read_text())
    tokens = dict(content["model"]["vocab"])
    specials = {token["content"]: token["id"] for token in content["added_tokens"]}
    tokens |= specials
    ordered = sorted(tokens, key=tokens.get)
    assert [tokens[token] for token in ordered] == list(range(len(ordered)))
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in content["model"]["merges"]]

    writer = open_writer(folder)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(ordered)
    writer.add_token_types(
        [gguf.TokenType.CONTROL if token in specials else gguf.TokenType.NORMAL for token in ordered]
    )
    writer.add_token_merges(merges)
    first = min(specials.values())
    writer.add_bos_token_id(first)
    writer.add_eos_token_id(specials.get("<|end_of_text|>", specials.get("<|im_end|>", first)))
    writer.add_add_bos_token(pre == "llama-bpe")
    close(writer)


def write_sentencepiece(folder):
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString((OUT / "sentencepiece" / "tokenizer.model").read_bytes())
    writer = open_writer(folder)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece.piece for piece in proto.pieces])
    writer.add_token_scores([piece.score for piece in proto.pieces])
    writer.add_token_types([gguf.TokenType(piece.type) for piece in proto.pieces])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    close(writer)


def main():
    for folder, (source, pre) in BYTE_LEVEL.items():
        write_byte_level(folder, source, pre)
    write_sentencepiece("gguf-spm")
    for path in sorted(OUT.glob("gguf-*/tokenizer.gguf")):
        print(f"{path.parent.name:20s} {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
