"""Ids of 2,000 strings for every tokenizer: tests/data/tokenizers/<name>/golden.json.

Special tokens in a string are parsed; no BOS is added. If two references disagree, the golden has the ids of one
reference, and lists those of the other by the string's index.
"""

import base64
import functools
import re

import gguf
import llama_cpp
import sentencepiece
import transformers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, normalizers

import inputs
import test_strings
from common import DATA, demo_model, versions, write_json

OUT = DATA / "tokenizers"
COUNT, SEED = 2000, 1
HUGGING_FACE = ["llama3", "gpt2", "gpt2-prefix-space", "smollm", "qwen2", "llama2", "llama2-metaspace", "llama2-unk"]
SP_SPECIALS = ["<unk>", "<s>", "</s>"]
HELLO = "Hello world"


@functools.cache
def strings():
    return test_strings.generate(COUNT, SEED, inputs.text("kjv_60k.txt"))


def llama_cpp_encoder(path):
    llm = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    return lambda text, bos=False: llm.tokenize(text.encode(), add_bos=bos, special=True)


def sentencepiece_encoder(path):
    """SentencePiece with its special pieces parsed. As in transformers' non-legacy mode, only text at the start of the
    string gets the prefix space; text after a special piece does not."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    bare = sentencepiece.SentencePieceProcessor()
    proto = sentencepiece_model_pb2.ModelProto.FromString(processor.serialized_model_proto())
    proto.normalizer_spec.add_dummy_prefix = False
    bare.LoadFromSerializedProto(proto.SerializeToString())

    def encode(text):
        ids = []
        for number, part in enumerate(re.split("(<unk>|<s>|</s>)", text)):
            if number % 2:
                ids.append(SP_SPECIALS.index(part))
            else:
                ids += (processor if number == 0 else bare).encode(part)
        return ids

    return encode


def differences(ids, others):
    """[[index, ids of the other reference], ...]"""
    return [[index, other] for index, (mine, other) in enumerate(zip(ids, others, strict=True)) if mine != other]


def byte_of_character():
    """Byte-level BPE represents each byte as a printable character: itself if it is one, else U+0100 and following."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + rank): byte for rank, byte in enumerate(others)}


def byte_level_decoder(path):
    """ids -> bytes with a GGUF file's own tokens."""
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    table = byte_of_character()
    spelled = [
        token.encode() if kind == gguf.TokenType.CONTROL else bytes(table[c] for c in token)
        for token, kind in zip(tokens, kinds, strict=True)
    ]
    return lambda ids: b"".join(spelled[token] for token in ids)


def write(name, what, ids, hello_with_specials, irreversible, used, **more):
    golden = {
        "what": what,
        "versions": versions(*used),
        "with_special": {"text": HELLO, "ids": hello_with_specials},
        "irreversible": irreversible,
        **more,
        "strings": strings(),
        "ids": ids,
    }
    write_json(OUT / name / "golden.json", golden)
    size = (OUT / name / "golden.json").stat().st_size
    found = {key: len(value) for key, value in more.items()}
    print(f"{name:20s} {sum(map(len, ids))} ids, {size / 1024:.0f} KiB, {len(irreversible)} irreversible, {found}")


def make_without_normalizer(name, source):
    """The ids of a GGUF whose tokenizer.json has a normalizer: GGUF cannot state one, and llama.cpp applies none."""
    tokenizer = Tokenizer.from_file(str(OUT / source / "tokenizer.json"))
    tokenizer.normalizer = normalizers.Sequence([])
    write_ids(name, "ids by tokenizers, without the normalizer", tokenizer)


def make_hugging_face(name):
    write_ids(name, "ids by tokenizers", Tokenizer.from_file(str(OUT / name / "tokenizer.json")))


def write_ids(name, what, tokenizer):
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in strings()]
    back = [tokenizer.decode(row, skip_special_tokens=False) for row in ids]
    irreversible = [index for index, text in enumerate(strings()) if back[index] != text]
    write(name, what, ids, tokenizer.encode(HELLO).ids, irreversible, ["tokenizers"])


def make_sentencepiece():
    folder = DATA / "models" / "kjv-target"
    encode = sentencepiece_encoder(folder / "tokenizer.model")
    ids = [encode(text) for text in strings()]
    hf = transformers.LlamaTokenizer.from_pretrained(folder)
    hf_ids = [hf.encode(text, add_special_tokens=False) for text in strings()]
    cpp = llama_cpp_encoder(OUT / "gguf-spm" / "tokenizer.gguf")
    cpp_ids = [cpp(text) for text in strings()]
    what = (
        "ids by sentencepiece, special pieces parsed, prefix space only at the start of the string; "
        "transformers adds none before a space; llama.cpp adds one after every special piece too"
    )
    # U+2581 represents a space in the vocabulary, so it is decoded as a space.
    irreversible = [index for index, text in enumerate(strings()) if "\u2581" in text]
    write(
        "sentencepiece",
        what,
        ids,
        [1, *encode(HELLO)],
        irreversible,
        ["sentencepiece", "transformers", "llama-cpp-python"],
        hf_differs=differences(ids, hf_ids),
        llama_cpp_differs=differences(ids, cpp_ids),
    )


def make_gguf(name, path, twin):
    """Ids by llama.cpp; twin: the same vocabulary in another format. Its ids must be equal; differences are listed."""
    encode = llama_cpp_encoder(path)
    ids = [encode(text) for text in strings()]
    more, used = {}, ["llama-cpp-python"]
    if twin == "sentencepiece":
        irreversible = [
            index for index, text in enumerate(strings()) if any(p in text for p in ("\u2581", *SP_SPECIALS))
        ]
        twin_encode = sentencepiece_encoder(OUT / twin / "tokenizer.model")
        more["sentencepiece_differs"] = differences(ids, [twin_encode(text) for text in strings()])
    else:
        decode = byte_level_decoder(path)
        irreversible = [index for index, text in enumerate(strings()) if decode(ids[index]) != text.encode()]
        if twin:
            tokenizer = Tokenizer.from_file(str(OUT / twin / "tokenizer.json"))
            twin_ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in strings()]
            more["tokenizers_differs"] = differences(ids, twin_ids)
            used.append("tokenizers")
    write(name, "ids by llama.cpp (special tokens parsed)", ids, encode(HELLO, bos=True), irreversible, used, **more)


def main():
    for name in HUGGING_FACE:
        make_hugging_face(name)
    make_without_normalizer("gguf-qwen2", "qwen2")
    make_sentencepiece()
    for name, twin in {
        "gguf-llama-bpe": "llama3",
        "gguf-gpt-2": "gpt2",
        "gguf-smollm": "smollm",
        "gguf-spm": "sentencepiece",
    }.items():
        make_gguf(name, OUT / name / "tokenizer.gguf", twin)
    make_gguf("smollm2", demo_model(), None)
    write_json(OUT / "invalid_utf8.json", [base64.b64encode(case).decode() for case in test_strings.invalid_utf8(5)])


if __name__ == "__main__":
    main()
