"""Multi-head attention with any number of heads for a given embedding."""

import math

import torch
from torch import nn


class Heads(nn.MultiheadAttention):
    """`torch.nn.MultiheadAttention` with the same arrays, and any number of heads.

    PyTorch's class divides the embedding by the number of heads, so it cannot have fewer heads of
    the same size. This class keeps `head_dim` and reads the number of heads from `num_heads`.
    """

    @staticmethod
    def replace(model: nn.Module, only: str | None = None) -> None:
        """Replace attention modules in a model by `Heads`, if their options are supported."""
        for name, module in model.named_modules():
            plain = type(module) is nn.MultiheadAttention
            if plain and only in (None, name) and _understood(module):
                module.__class__ = Heads
                module._qkv_same_embed_dim = False  # stops encoders from using their fast path

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = True,
        attn_mask: torch.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        single, turned = query.ndim == 2, not self.batch_first and query.ndim == 3
        q, k, v = (each[None] if single else each for each in (query, key, value))
        q, k, v = (each.transpose(0, 1) if turned else each for each in (q, k, v))
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        weights, sizes = self.in_proj_weight.chunk(3), (self.num_heads, self.head_dim)
        q, k, v = (
            nn.functional.linear(*each).unflatten(-1, sizes).transpose(1, 2)
            for each in zip((q, k, v), weights, biases, strict=True)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.head_dim)
        if attn_mask is not None and attn_mask.ndim == 3:  # one mask for each head
            attn_mask = attn_mask.unflatten(0, (-1, self.num_heads))
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask[..., None, None, :]
        for at in (attn_mask, key_padding_mask):
            if at is not None:
                hidden = at.dtype == torch.bool
                scores = scores.masked_fill(at, -math.inf) if hidden else scores + at
        shares = nn.functional.dropout(scores.softmax(-1), self.dropout, self.training)
        out = self.out_proj((shares @ v).transpose(1, 2).flatten(-2))
        out = out.transpose(0, 1) if turned else out[0] if single else out
        if not need_weights:
            return out, None
        shares = shares.mean(1) if average_attn_weights else shares
        return out, shares[0] if single else shares


def _understood(module: nn.MultiheadAttention) -> bool:
    return module._qkv_same_embed_dim and module.bias_k is None and not module.add_zero_attn
