"""Typical full-batch gradient descent in PyTorch, with a module per network."""

import time

import numpy as np
import torch

from festina.networks import Layer


class FullyConnected(torch.nn.Module):
    def __init__(self, network: Layer, activation):
        super().__init__()
        self.u = torch.nn.Parameter(torch.tensor(np.asarray(network.u), dtype=torch.float32))
        self.v = torch.nn.Parameter(torch.tensor(np.asarray(network.v), dtype=torch.float32))
        self.activation = activation

    def forward(self, x):
        return self.activation(x @ self.u.T) @ self.v


class LinearAttention(torch.nn.Module):
    """Linear attention, evaluated only at the query token, with precomputed Gram matrices."""

    def __init__(self, network: Layer):
        super().__init__()
        u, v = np.asarray(network.u), np.asarray(network.v)
        self.k = torch.nn.Parameter(torch.tensor(u[:, 0, 0], dtype=torch.float32))
        self.q = torch.nn.Parameter(torch.tensor(u[:, 1, 0], dtype=torch.float32))
        self.v = torch.nn.Parameter(torch.tensor(v[:, 0], dtype=torch.float32))

    def forward(self, inputs):
        gram, query = inputs
        read = gram @ self.k.T  # (sample, embedding, head)
        asked = query @ self.q.T  # (sample, head)
        return ((read * self.v.T).sum(1) * asked).sum(1, keepdim=True)


def module(name: str, network: Layer) -> torch.nn.Module:
    if name == "1F":
        return LinearAttention(network)
    activation = {"1B": lambda a: a, "1D": torch.relu, "1G": torch.square}[name]
    return FullyConnected(network, activation)


def inputs(name: str, x: np.ndarray):
    tokens = torch.tensor(x, dtype=torch.float32)
    if name == "1F":
        return tokens @ tokens.transpose(1, 2) / (tokens.shape[2] - 1), tokens[:, :, -1]
    return tokens


def train(
    name: str, network: Layer, x: np.ndarray, y: np.ndarray, learning_rate: float, steps: int
) -> tuple[np.ndarray, float]:
    """Train and return the loss at every step, and the seconds of the loop."""
    model = module(name, network)
    data, target = inputs(name, x), torch.tensor(y, dtype=torch.float32)
    optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate)
    losses = torch.empty(steps)
    started = time.perf_counter()
    for step in range(steps):
        optimiser.zero_grad()
        loss = ((target - model(data)) ** 2).sum(1).mean()
        loss.backward()
        optimiser.step()
        losses[step] = loss.detach()
    return losses.numpy().astype(float), time.perf_counter() - started
