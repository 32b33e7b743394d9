#!/usr/bin/env python3
"""Write a folder with a tiny Llama of random weights in Hugging Face's form, for engines that load such. Needs numpy only.

    make_tiny_hf_model.py FOLDER [--ctx 2048 --seed 7]

The same seed gives the same bytes. The text it makes is words in random order and never ends by itself: every answer runs to
max_tokens. Dimension 0 is a constant that no layer writes (its rows in the output projections are zero); the head reads it to
push every token that is no whole word far below the others, so that the answer is always valid UTF-8.
"""
import argparse
import json
import math
import pathlib
import struct

import numpy

WORDS = ("anchor apple autumn basket beach bell bird boat bread bridge brook candle castle cloud coast corn creek dawn desert door "
         "dream drum dust eagle evening feather fern field fire flute fog forest garden gate glass grain grass harbour hill "
         "honey horse house island ivory journey kettle ladder lake lamp leaf letter lily lion maple market meadow mill mirror "
         "moon morning moss mountain needle night north oak ocean orchard owl paper path pebble pine planet plum pond rain raven "
         "reed ribbon river road rope rose sail salt sand shadow shell shore silver sky smoke snow song south spring star stone "
         "storm stream summer sun swan table thread thunder tide timber tower train tree valley village violin wall water wave "
         "wheat wheel wind window winter wolf wood yard").split()
DIM, HEADS, LAYERS, WIDE = 128, 2, 2, 256
SPECIAL = ["<unk>", "<s>", "</s>", "<pad>"]
TEMPLATE = ("{% for m in messages %}<s>{{ m['role'] }}:{{ m['content'] if m['content'] is string else "
            "m['content'] | map(attribute='text') | join('') }}{% endfor %}")


def byte_alphabet():
    """The 256 characters by which byte-level BPE writes bytes: printable ones stand for themselves."""
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
    rest = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}


def tokenizer():
    """(vocabulary, ids of whole words, tokenizer.json): a word is reached by merging it letter by letter."""
    letters = byte_alphabet()
    vocabulary = {token: i for i, token in enumerate(SPECIAL + [letters[b] for b in range(256)])}
    merges = []
    for word in WORDS:
        so_far = letters[ord(" ")]
        for letter in word:
            if so_far + letter not in vocabulary:
                merges.append([so_far, letter])
                vocabulary[so_far + letter] = len(vocabulary)
            so_far += letter
    whole = [vocabulary[letters[ord(" ")] + word] for word in WORDS]
    bytes_ = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, t in enumerate(SPECIAL)]
    return vocabulary, whole, {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": bytes_,
        "post_processor": bytes_, "decoder": bytes_,
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary, "merges": merges}}


def weights(vocabulary, whole, seed):
    rng = numpy.random.default_rng(seed)

    def random(rows, columns, scale=1.0, writes_residual=False):
        m = (rng.standard_normal((rows, columns)) * scale / math.sqrt(columns)).astype(numpy.float32)
        if writes_residual:
            m[0] = 0
        return m

    ones = numpy.ones(DIM, numpy.float32)
    embedding = rng.standard_normal((vocabulary, DIM)).astype(numpy.float32)
    embedding[:, 0] = 8
    head = random(vocabulary, DIM, 2.0)
    head[:, 0] = -12
    head[whole, 0] = 0
    out = {"model.embed_tokens.weight": embedding, "lm_head.weight": head, "model.norm.weight": ones}
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        out |= {at + "input_layernorm.weight": ones, at + "post_attention_layernorm.weight": ones,
                at + "self_attn.q_proj.weight": random(DIM, DIM), at + "self_attn.k_proj.weight": random(DIM, DIM),
                at + "self_attn.v_proj.weight": random(DIM, DIM), at + "self_attn.o_proj.weight": random(DIM, DIM, 1, True),
                at + "mlp.gate_proj.weight": random(WIDE, DIM), at + "mlp.up_proj.weight": random(WIDE, DIM),
                at + "mlp.down_proj.weight": random(DIM, WIDE, 1, True)}
    return out


def write_safetensors(path, tensors):
    """Length of the header, the header as JSON, the bytes of the tensors one after another."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [offset, offset + t.nbytes]}
        offset += t.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            file.write(t.tobytes())


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--ctx", type=int, default=2048)
    options.add_argument("--seed", type=int, default=7)
    given = options.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    vocabulary, whole, tokens = tokenizer()
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    pages = {
        "config.json": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(vocabulary), "hidden_size": DIM,
                        "intermediate_size": WIDE, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
                        "num_key_value_heads": HEADS, "head_dim": DIM // HEADS, "hidden_act": "silu",
                        "max_position_embeddings": given.ctx, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                        "tie_word_embeddings": False, "torch_dtype": "float32", "attention_bias": False, "mlp_bias": False, **ids},
        "generation_config.json": ids,
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": given.ctx,
                                  "clean_up_tokenization_spaces": False, "chat_template": TEMPLATE, **names},
        "special_tokens_map.json": names,
        "tokenizer.json": tokens,
    }
    for name, page in pages.items():
        (given.folder / name).write_text(json.dumps(page, ensure_ascii=False), encoding="utf-8")
    write_safetensors(given.folder / "model.safetensors", weights(len(vocabulary), whole, given.seed))


if __name__ == "__main__":
    main()
