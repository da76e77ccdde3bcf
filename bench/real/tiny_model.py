"""Makes a tiny language model with random weights, so that a real vLLM can be run without a download.

    python tiny_model.py FOLDER

The text it writes is nonsense; everything around the text (tokens, usage, streams, caches) is real.
Runs inside the vLLM environment, which has torch, transformers and tokenizers.
"""

import sys
import sysconfig
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 4096
POSITIONS = 8192
END_OF_TURN = "<|im_end|>"
PADDING = "<|endoftext|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}" + END_OF_TURN + "\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer():
    """A byte-level tokenizer, trained on Python's own library: the only text every machine has."""
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:100]
    pieces = Tokenizer(models.BPE())
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[PADDING, "<|im_start|>", END_OF_TURN],
        show_progress=False,
    )
    pieces.train([str(path) for path in sources], trainer)
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=pieces, eos_token=END_OF_TURN, pad_token=PADDING, model_max_length=POSITIONS
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def model(words):
    """Two layers of the Qwen2 architecture, the same random weights every time."""
    torch.manual_seed(1)
    shape = transformers.Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    return transformers.Qwen2ForCausalLM(shape).to(torch.bfloat16)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    words = tokenizer()
    words.save_pretrained(folder)
    model(words).save_pretrained(folder)


main()
