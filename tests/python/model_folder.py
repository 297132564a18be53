"""A model small enough to be made on the spot: for servers whose engine makes its tokens up.

Byte-level tokens, a ChatML template, and a context as long as a test wants it. Written by hand, so that the tests of
the server need no download; with `--load-format dummy` the real engine runs it too.
"""

import json
import pathlib

VOCAB_SIZE = 259  # 256 bytes and three special tokens
EOS = 258

TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role not in ['system', 'user', 'assistant', 'tool'] %}"
    "{{ raise_exception('this model knows no role ' + message.role) }}{% endif %}"
    "{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def byte_alphabet():
    """The printable character that stands for each byte in byte-level vocabularies."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    characters = {byte: chr(byte) for byte in plain}
    for byte in range(256):
        characters.setdefault(byte, chr(0x100 + len(characters) - len(plain)))
    return [characters[byte] for byte in range(256)]


def special_token(token_id, content):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True}


def write_model_folder(folder, max_position_embeddings=4096):
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    tokenizer = {
        "version": "1.0",
        "added_tokens": [special_token(256, "<|im_start|>"), special_token(257, "<|im_end|>"),
                         special_token(EOS, "<|endoftext|>")],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "vocab": {character: i for i, character in enumerate(byte_alphabet())}, "merges": []},
    }
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB_SIZE, "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": max_position_embeddings, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "hidden_act": "silu", "tie_word_embeddings": True, "torch_dtype": "float32", "bos_token_id": 256,
        "eos_token_id": EOS,
    }
    tokenizer_config = {"chat_template": TEMPLATE, "eos_token": "<|endoftext|>"}
    for name, content in (("tokenizer.json", tokenizer), ("config.json", config),
                          ("tokenizer_config.json", tokenizer_config)):
        (folder / name).write_text(json.dumps(content))
    return folder
