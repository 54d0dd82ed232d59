"""Typical Hamiltonian Monte Carlo in PyTorch: a Python loop over moves."""

import math

import numpy as np
import torch

ACTIVATIONS = {
    "linear": lambda z: z,
    "erf-sigmoid": lambda z: (1 + torch.erf(math.sqrt(math.pi) / 2 * z)) / 2,
    "relu": torch.relu,
}


def sample(
    x: np.ndarray,
    y: np.ndarray,
    activation: str,
    *,
    width: int,
    temperature: float,
    chains: int,
    anneal: int,
    burn: int,
    moves: int,
    thin: int = 10,
    leapfrog: int = 20,
    step: float = 0.05,
) -> np.ndarray:
    """Sample chains in parallel and return draws of the kernel, `(draw, chain, sample, sample)`."""
    phi = ACTIVATIONS[activation]
    inputs = torch.tensor(x / math.sqrt(x.shape[1]), dtype=torch.float32)
    targets = torch.tensor(y, dtype=torch.float32)
    deviation = 1 / math.sqrt(len(x))

    def slopes(w, a, t):
        w, a = w.detach().requires_grad_(), a.detach().requires_grad_()
        f = phi(inputs @ w.mT) @ a.mT * (deviation / width)
        error = ((targets - f) ** 2).sum((1, 2))
        level = 0.5 * (w**2).sum((1, 2)) + 0.5 * (a**2).sum((1, 2)) + error * width / (2 * t)
        return level.detach(), *torch.autograd.grad(level.sum(), (w, a))

    w = torch.randn(chains, width, x.shape[1])
    a = torch.randn(chains, y.shape[1], width)
    log_step = torch.full((chains, 1, 1), math.log(step))
    drawn = []
    for move in range(anneal + burn + moves):
        t = temperature ** min((move + 1) / max(anneal, 1), 1.0)
        p, q = torch.randn_like(w), torch.randn_like(a)
        eps = torch.exp(log_step) * (0.8 + 0.4 * torch.rand(chains, 1, 1))
        level, g, h = slopes(w, a, t)
        before = level + 0.5 * (p**2).sum((1, 2)) + 0.5 * (q**2).sum((1, 2))
        w_new, a_new = w, a
        for _ in range(leapfrog):
            p, q = p - 0.5 * eps * g, q - 0.5 * eps * h
            w_new, a_new = w_new + eps * p, a_new + eps * q
            level, g, h = slopes(w_new, a_new, t)
            p, q = p - 0.5 * eps * g, q - 0.5 * eps * h
        after = level + 0.5 * (p**2).sum((1, 2)) + 0.5 * (q**2).sum((1, 2))
        accepted = torch.exp(torch.clamp(before - after, max=0.0)).nan_to_num()[:, None, None]
        taken = torch.rand(chains, 1, 1) < accepted
        w, a = torch.where(taken, w_new, w), torch.where(taken, a_new, a)
        if move < anneal + burn:
            gain = 0.02 / (1 + max(move - anneal, 0) / 50)
            log_step = log_step + gain * torch.clamp((accepted - 0.8) / 0.2, min=-4.0)
        elif (move + 1) % thin == 0:
            layer = phi(inputs @ w.mT)
            drawn.append((layer @ layer.mT / width).numpy())
    return np.array(drawn)
