"""Variants of config.json, generation_config.json and tokenizer files, and the results of transformers for each:
tests/data/variants/{configs,tokenizers}.json."""

import json
import math
import pathlib
import shutil
import tempfile

import torch
import transformers

from common import DATA, versions, write_json

MODEL = DATA / "models/kjv-target"
OUT = DATA / "variants"
PROMPT = "And God said, Let there be light: and there was light. And God saw the light"
NEW = 10
DROP = object()

# Left out: a generation_config.json without eos_token_id, after which transformers does not stop at the eos_token_id of
# config.json. vLLM does, and so does this engine.
# name: changes of config.json (DROP: the key is removed), generation_config.json or None
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 256}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
CONFIGS = {
    "as it is": ({}, None),
    "architectures missing": ({"architectures": DROP}, None),
    "architectures other": ({"architectures": ["LlamaModel"]}, None),
    "head_dim null": ({"head_dim": None}, None),
    "head_dim said": ({"head_dim": 32}, None),
    "eps missing": ({"rms_norm_eps": DROP}, None),
    "eps large": ({"rms_norm_eps": 0.01}, None),
    "context missing": ({"max_position_embeddings": DROP}, None),
    "context small": ({"max_position_embeddings": 64}, None),
    "theta missing": ({"rope_theta": DROP}, None),
    "theta integer": ({"rope_theta": 10000}, None),
    "theta 500": ({"rope_theta": 500.0}, None),
    "theta in rope_parameters": ({"rope_theta": DROP, "rope_scaling": DROP, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}, None),
    "rope_scaling missing": ({"rope_scaling": DROP}, None),
    "rope default": ({"rope_scaling": {"rope_type": "default"}}, None),
    "rope type default": ({"rope_scaling": {"type": "default"}}, None),
    "rope empty": ({"rope_scaling": {}}, None),
    "rope linear": ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, None),
    "rope linear by type": ({"rope_scaling": {"type": "linear", "factor": 4}}, None),
    "rope linear, both names": ({"rope_scaling": {"type": "linear", "rope_type": "linear", "factor": 2.0}}, None),
    "rope llama3": ({"rope_scaling": LLAMA3}, None),
    "rope llama3 in rope_parameters": ({"rope_theta": DROP, "rope_scaling": DROP, "rope_parameters": {**LLAMA3, "rope_theta": 10000.0}}, None),
    "rope yarn": ({"rope_scaling": YARN}, None),
    "rope yarn attention_factor": ({"rope_scaling": {**YARN, "attention_factor": 1.3}}, None),
    "rope yarn betas": ({"rope_scaling": {**YARN, "beta_fast": 16, "beta_slow": 2}}, None),
    "rope yarn by type": ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}}, None),
    "rope yarn, finetuned": ({"rope_scaling": {**YARN, "finetuned": True}}, None),
    "rope yarn, truncate false": ({"rope_scaling": {**YARN, "truncate": False}}, None),
    "rope dynamic": ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}, "max_position_embeddings": 2048}, None),
    "torch_dtype float32": ({"torch_dtype": "float32"}, None),
    "dtype bfloat16": ({"torch_dtype": DROP, "dtype": "bfloat16"}, None),
    "dtype null": ({"torch_dtype": None}, None),
    "use_cache false": ({"use_cache": False}, None),
    "pretraining_tp 2": ({"pretraining_tp": 2}, None),
    "attention_dropout": ({"attention_dropout": 0.1}, None),
    "hidden_act swish": ({"hidden_act": "swish"}, None),
    "hidden_act missing": ({"hidden_act": DROP}, None),
    "biases missing": ({"attention_bias": DROP, "mlp_bias": DROP}, None),
    "quantization null": ({"quantization_config": None}, None),
    "tied, another head": ({"tie_word_embeddings": True}, None),
    "tie missing": ({"tie_word_embeddings": DROP}, None),
    "unknown keys": ({"vision_config": {"a": [1]}, "_attn_implementation_autoset": True, "transformers_version": "4.51.3"}, None),
    "infinity in an unknown key": ({"x": [0.0, math.inf, -math.inf, math.nan]}, None),
    "bos null": ({"bos_token_id": None}, None),
    "eos null": ({"eos_token_id": None}, None),
    "eos missing": ({"eos_token_id": DROP}, None),
    "eos is a token of the answer": ({"eos_token_id": 971}, None),
    "eos list": ({"eos_token_id": [2, 971]}, None),
    "eos beyond": ({"eos_token_id": [2, 128009]}, None),
    "eos -1": ({"eos_token_id": -1}, None),
    "generation eos": ({}, {"eos_token_id": 971}),
    "generation eos list": ({"eos_token_id": 971}, {"eos_token_id": [2]}),
    "generation eos beyond": ({}, {"eos_token_id": [2, 128009]}),
    "generation eos -1": ({}, {"eos_token_id": -1}),
    "mistral, window null": ({"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": None}, None),
    "mistral, window of the context": ({"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 2048}, None),
}

# No text begins with a blank: in transformers 5 such a text has one token fewer than in SentencePiece.
TEXTS = ["And God", "And  God ", "</s>And God", "a<s>b</s>c", "", "\n\nAnd", "it's 1234 \u00e9\U0001f600"]
# Without add_bos_token, transformers 4 and llama.cpp put BOS before a text of a tokenizer.model, transformers 5 does not.
BASE = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def change(config, changes):
    out = {**config, **changes}
    return {key: value for key, value in out.items() if value is not DROP}


def answer(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    ids = [1, *tokenizer(PROMPT, add_special_tokens=False)["input_ids"]]
    with torch.no_grad():
        out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False,
                             max_new_tokens=NEW, output_scores=True, return_dict_in_generate=True)
    margins = [float(torch.topk(s[0], 2).values.diff().abs()) for s in out.scores]
    return ids, out.sequences[0, len(ids):].tolist(), min(margins)


def configs():
    base = json.loads((MODEL / "config.json").read_text())
    made = []
    for name, (changes, generation) in CONFIGS.items():
        with tempfile.TemporaryDirectory() as path:
            folder = pathlib.Path(path)
            (folder / "model.safetensors").symlink_to(MODEL / "model.safetensors")
            config = json.dumps(change(base, changes))
            (folder / "config.json").write_text(config)
            entry = {"name": name, "config": config}
            if generation is not None:
                entry["generation_config"] = json.dumps(generation)
                (folder / "generation_config.json").write_text(entry["generation_config"])
            prompt, entry["ids"], margin = answer(folder)
            if margin < 1e-3:
                raise SystemExit(f"{name}: a margin of {margin}; choose another prompt")
            made.append(entry)
    return {"versions": versions("transformers", "torch"), "prompt": prompt, "variants": made}


def tokenizer_folders():
    """name, files (text), True if the folder also has the tokenizer.model of kjv-target"""
    for extra in ({}, {"legacy": True}, {"legacy": False}, {"legacy": None}, {"add_bos_token": False},
                  {"add_eos_token": True}, {"legacy": True, "add_eos_token": True}, {"tokenizer_class": "LlamaTokenizerFast"},
                  {"legacy": True, "tokenizer_class": "LlamaTokenizerFast"}, {"bos_token": {"content": "<s>", "special": True, "__type": "AddedToken"}}):
        yield f"tokenizer.model {json.dumps(extra)}", {"tokenizer_config.json": json.dumps({**BASE, **extra})}, True
    for name in ("llama2", "llama2-metaspace", "llama3", "gpt2"):
        source = json.loads((DATA / "tokenizers" / name / "tokenizer.json").read_text())
        specials = [t["content"] for t in source["added_tokens"] if t["special"]]
        bos, eos = (specials[1], specials[2]) if name.startswith("llama2") else (specials[0], specials[min(1, len(specials) - 1)])
        for extra in ({}, {"add_bos_token": True}, {"add_bos_token": False}, {"add_bos_token": True, "add_eos_token": True}, {"legacy": True}):
            config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": bos, "eos_token": eos, **extra}
            yield f"{name} {json.dumps(extra)}", {"tokenizer.json": f"tokenizers/{name}", "tokenizer_config.json": json.dumps(config)}, False


def tokenizers():
    made = []
    for name, files, spm in tokenizer_folders():
        with tempfile.TemporaryDirectory() as path:
            folder = pathlib.Path(path)
            (folder / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
            if spm:
                shutil.copy(MODEL / "tokenizer.model", folder)
            for file, text in files.items():
                if file == "tokenizer.json":
                    shutil.copy(DATA / text / file, folder)
                else:
                    (folder / file).write_text(text)
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            made.append({"name": name, "files": files, "spm": spm, "ids": [tokenizer(text)["input_ids"] for text in TEXTS]})
    return {"versions": versions("transformers", "tokenizers", "sentencepiece"), "texts": TEXTS, "variants": made}


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)
    write_json(OUT / "configs.json", configs())
    write_json(OUT / "tokenizers.json", tokenizers())


if __name__ == "__main__":
    main()
