"""Goldens of the demo model: tests/data/smollm2/. The GGUF is dequantised and run by transformers in fp32."""

import collections

import gguf
import llama_cpp
import numpy as np

import decoding
import hf_llama
import inputs
from common import DATA, demo_model, versions
from gguf_models import NAMES, permutation

OUT = DATA / "smollm2"
SCORED = 2000
ROWS = np.array([0, 256, 1023, 1999])
CODE = '''def fibonacci(n):
    """Return the n-th Fibonacci number."""
    if n < 2:
        return n
'''


def read_gguf(path):
    """(config, HF names -> float32 weights, {type: count of tensors})."""
    reader = gguf.GGUFReader(path)

    def field(name):
        return reader.fields[f"llama.{name}"].contents()

    config = {
        "model_type": "llama",
        "hidden_size": field("embedding_length"),
        "intermediate_size": field("feed_forward_length"),
        "num_hidden_layers": field("block_count"),
        "num_attention_heads": field("attention.head_count"),
        "num_key_value_heads": field("attention.head_count_kv"),
        "vocab_size": field("vocab_size"),
        "max_position_embeddings": field("context_length"),
        "rms_norm_eps": field("attention.layer_norm_rms_epsilon"),
        "rope_theta": field("rope.freq_base"),
        "tie_word_embeddings": True,
    }
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    names = {short: name for name, short in NAMES.items()}
    weights, types = {}, collections.Counter()
    for tensor in reader.tensors:
        *block, part, _ = tensor.name.split(".")
        value = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1])
        if part in heads:
            value = value[np.argsort(permutation(len(value), heads[part]))]
        weights[("model.layers." + block[1] + "." if block else "") + names[part] + ".weight"] = np.array(
            value, np.float32
        )
        types[f"{part} {tensor.tensor_type.name}"] += 1
    return config, weights, dict(types)


def prompts(tokenize):
    """Five prompts from 5 to 900 ids; the longer ones are verses cut at an id."""
    verses = inputs.text("kjv_12k.txt")
    chat = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    texts = ["Once upon a time,", chat, CODE]
    result = [{"text": text, "ids": tokenize(text)} for text in texts]
    ids = tokenize(verses)
    for start, count in ((1200, 240), (0, 900)):
        result.append({"text": f"ids {start}..{start + count} of kjv_12k.txt", "ids": ids[start : start + count]})
    return result


def main():
    path = demo_model()
    config, weights, types = read_gguf(path)
    llm = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)

    def tokenize(text):
        return llm.tokenize(text.encode(), add_bos=False, special=True)

    ids = tokenize(inputs.text("kjv_12k.txt"))[:SCORED]
    scored = llm.detokenize(ids).decode()
    assert tokenize(scored) == ids
    (DATA / "texts" / "kjv_2000_tokens.txt").write_text(scored, encoding="utf-8")

    print(f"SmolLM2-135M-Instruct: {config}, {types}")
    model = hf_llama.from_weights(config, weights)
    decoding.write_golden(
        OUT,
        "SmolLM2-135M-Instruct, GGUF Q4_1 dequantised, transformers in fp32; ids by llama.cpp; scored text: "
        "texts/kjv_2000_tokens.txt",
        model,
        config,
        weights,
        prompts(tokenize),
        ids,
        ROWS,
        tensor_types=types,
        tokenizer_versions=versions("llama-cpp-python", "gguf"),
    )


if __name__ == "__main__":
    main()
