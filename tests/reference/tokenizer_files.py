"""Trains small tokenizers in the styles of known families: tests/data/tokenizers/<name>/tokenizer.json."""

import json
import shutil

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import inputs
import test_strings
from common import DATA

OUT = DATA / "tokenizers"
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN2_SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LLAMA3_SPECIALS = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|reserved_special_token_0|>"]
SMOLLM_SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"]


def corpus():
    """Verses, and strings of every kind, so that merges also exist for code, CJK and emoji."""
    verses = inputs.text("kjv_60k.txt")
    return [*verses.splitlines(keepends=True), *test_strings.generate(6000, 77, verses), *test_strings.CODE * 20]


def special(text):
    return AddedToken(text, special=True, normalized=False)


def byte_level(pre_tokenizer, vocab_size, specials, specials_last=False, **model):
    """Byte-level BPE. Llama 3 numbers its special tokens after the ordinary ones; other families number them before."""
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[] if specials_last else specials,
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens([special(text) for text in specials])
    return tokenizer


def llama3():
    split = pre_tokenizers.Split(Regex(LLAMA3_SPLIT), behavior="isolated", invert=False)
    pre = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = byte_level(pre, 4096, LLAMA3_SPECIALS, specials_last=True, ignore_merges=True)
    bos = "<|begin_of_text|>"
    template = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, tokenizer.token_to_id(bos))]
    )
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


def gpt2(add_prefix_space):
    pre = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=True)
    tokenizer = byte_level(pre, 2048, ["<|endoftext|>"], specials_last=True)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def qwen2():
    split = pre_tokenizers.Split(Regex(QWEN2_SPLIT), behavior="isolated", invert=False)
    pre = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = byte_level(pre, 2048, QWEN2_SPECIALS, specials_last=True)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def smollm():
    pre = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    return byte_level(pre, 3072, SMOLLM_SPECIALS)


def llama2_parts(vocab_size):
    """(vocabulary, merges) of a character BPE over the text with spaces as U+2581; sequences of spaces also merge."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("▁+$|▁*[^▁\\n]+|▁+|\\n"), behavior="isolated")
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, limit_alphabet=160, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    ordered = sorted(model["vocab"], key=model["vocab"].get)
    return ordered, [tuple(pair) for pair in model["merges"]]


def llama2(parts, metaspace, byte_fallback):
    """Old files prepend and replace in the normalizer; newer ones have a Metaspace that does not split."""
    pieces, merges = parts
    head = ["<unk>", "<s>", "</s>"] + ([f"<0x{byte:02X}>" for byte in range(256)] if byte_fallback else [])
    vocab = {piece: number for number, piece in enumerate(dict.fromkeys(head + pieces))}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=byte_fallback)
    )
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    tokenizer.add_special_tokens([special(text) for text in head[:3]])
    return tokenizer


def save(name, tokenizer, merges_as_strings=False):
    """Writes a compact tokenizer.json. Files from before 2024 have merges like "a b", newer ones ["a", "b"]: both are
    made."""
    content = json.loads(tokenizer.to_str())
    if merges_as_strings:
        content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n")
    size = (folder / "tokenizer.json").stat().st_size
    print(f"{name:20s} {tokenizer.get_vocab_size()} tokens, {size / 1024:.0f} KiB")


def main():
    save("llama3", llama3())
    save("gpt2", gpt2(add_prefix_space=False), merges_as_strings=True)
    save("gpt2-prefix-space", gpt2(add_prefix_space=True), merges_as_strings=True)
    save("smollm", smollm(), merges_as_strings=True)
    save("qwen2", qwen2(), merges_as_strings=True)
    parts = llama2_parts(2048)
    save("llama2", llama2(parts, metaspace=False, byte_fallback=True), merges_as_strings=True)
    save("llama2-metaspace", llama2(parts, metaspace=True, byte_fallback=True))
    save("llama2-unk", llama2(parts, metaspace=False, byte_fallback=False))
    folder = OUT / "sentencepiece"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(DATA / "models" / "kjv-target" / "tokenizer.model", folder / "tokenizer.model")


if __name__ == "__main__":
    main()
