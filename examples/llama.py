"""Hugging Face's Llama, small, on Python's own source: mpirun -n 4 python examples/llama.py."""

import argparse
import math
import os
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from gossip import Gossip, place

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--batch-size", type=int, default=16, help="windows of each learner")
parser.add_argument("--context", type=int, default=64, help="bytes of a window")
options = parser.parse_args()

files = sorted(Path(os.__file__).parent.glob("*.py"))  # a text that is on every machine
text = torch.frombuffer(bytearray(b"".join(file.read_bytes() for file in files)), dtype=torch.uint8)
test, train = text.split([len(text) // 10, len(text) - len(text) // 10])

device = place("auto")
config = LlamaConfig(
    vocab_size=256,
    hidden_size=64,
    intermediate_size=192,
    num_hidden_layers=2,
    num_attention_heads=4,
    tie_word_embeddings=True,
)
model = Gossip(LlamaForCausalLM(config).to(device), topology="one-peer-exponential")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
learner, n = model.comm.process, model.comm.n


def windows(part: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Bytes from random places, [count, context]."""
    starts = torch.randint(len(part) - options.context, (count, 1), generator=generator)
    return part[starts + torch.arange(options.context)].long().to(device)


draw = torch.Generator().manual_seed(1 + learner)
held_out = windows(test, 64, torch.Generator().manual_seed(0))
for step in range(1, options.steps + 1):
    x = windows(train, options.batch_size, draw)
    optimizer.zero_grad()
    model(input_ids=x, labels=x).loss.backward()
    optimizer.step()
    if step % 50 == 0 or step == options.steps:
        model.eval()
        with model.average() as mean, torch.no_grad():
            bits = mean(input_ids=held_out, labels=held_out).loss.item() / math.log(2)
        model.train()
        if learner == 0:
            print(f"step {step}: {bits:.2f} bits per byte of unseen text, mean model of n = {n}")
