"""Modules as they are trained."""

import copy

import torch
from torch import nn

from law import grads, leaf, program


@program
def attention(region):
    layer, x = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True), leaf(3, 5, 8)
    return [*grads(region(layer, x.sin()).square().sum(), x, *layer.parameters()), torch.rand(2)]


@program
def bidirectional_lstm(region):
    layer, x = nn.LSTM(8, 8, num_layers=2, dropout=0.3, bidirectional=True), leaf(5, 3, 8)
    y, (h, c) = region(layer, x.sin())
    return [*grads(y.sum() + h.sin().sum() + c.cos().sum(), x, *layer.parameters()), torch.rand(2)]


@program
def packed_sequence(region):
    layer, x = nn.GRU(8, 8), leaf(5, 3, 8)
    packed = nn.utils.rnn.pack_padded_sequence(x.sin(), [5, 3, 2])
    y, h = region(layer, packed)
    return grads(y.data.sum() + h.sin().sum(), x, *layer.parameters())


@program
def tied_weights(region):
    embedding, head = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
    head.weight = embedding.weight
    ids = torch.arange(10).reshape(2, 5)

    def block(h):
        return head(torch.tanh(h) + embedding(ids))

    logits = region(block, region(embedding, ids))
    return grads(logits.logsumexp(-1).sum(), embedding.weight)


@program
def sparse_embedding(region):
    embedding = nn.EmbeddingBag(11, 8, mode="sum", sparse=True)
    y = region(lambda ids: embedding(ids).sin(), torch.arange(10).reshape(2, 5))
    loss, grad = grads(y.sum(), embedding.weight)
    return [loss, grad.to_dense()]


@program
def weight_norm(region):
    layer, x = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), leaf(4, 8)
    return grads(region(lambda h: layer(h.sin()).exp(), x).sum(), x, *layer.parameters())


@program
def convolutions(region):
    layers = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout2d(0.3), nn.MaxPool2d(2)
    net = nn.Sequential(*layers)
    x = leaf(2, 2, 8, 8)
    return [*grads(region(net, x.sin()).square().sum(), x, *net.parameters()), *net.buffers(), torch.rand(2)]


@program
def functional_call(region):
    layer, x, w = nn.Linear(8, 8), leaf(4, 8), leaf(8, 8)

    def block(h):
        return torch.func.functional_call(layer, {"weight": w}, (h,)).tanh()

    return grads(region(block, x).exp().sum(), x, w, layer.bias)


@program
def a_stored_activation(region):
    x = leaf(4, 8)

    class Stores(nn.Module):
        def forward(self, h):
            self.last = h.sin()
            return self.last.exp()

    module = Stores()
    y = region(module, x)
    return grads(y.sum() + module.last.square().sum(), x)


@program
def copied_between_forward_and_backward(region):
    layer, x = nn.Linear(8, 8), leaf(4, 8)
    y = region(lambda h: layer(h).tanh().exp(), x)
    other = copy.deepcopy(layer)
    return grads(y.sum() + region(other, x).sum(), x, *layer.parameters(), *other.parameters())


@program(refused="did different work")
def switched_to_eval_before_backward(region):
    net, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Tanh()), leaf(4, 8)
    y = region(lambda h: net(h).exp(), x)
    net.eval()
    return grads(y.sum(), x, *net.parameters())


@program(refused="its requires_grad is not what it was in forward")
def frozen_before_backward(region):
    first, second, x = nn.Linear(8, 8), nn.Linear(8, 8), leaf(4, 8)
    y = region(lambda h: second(first(h).tanh()).exp(), x)
    first.weight.requires_grad_(False)
    return grads(y.sum(), x, *second.parameters(), first.bias)


@program
def micro_batches(region):
    layer, x = nn.Linear(8, 8), leaf(8, 8)
    losses = [region(lambda h: layer(h).tanh().exp(), part).sum() for part in x.chunk(4)]
    for loss in losses:
        loss.backward()
    return [x.grad, layer.weight.grad, layer.bias.grad]


@program
def steps_of_adam(region):
    net, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), nn.Linear(8, 8)), torch.randn(4, 8)
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        region(net, x).square().sum().backward()
        optimizer.step()
    return list(net.parameters())


@program
def switched_to_eval_in_the_middle(region):
    net, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8)), leaf(4, 8)

    def block(h):
        net.eval()
        target = net(h).sin() + 1
        net.train()
        return target

    losses = [region(block, x).sum() for _ in range(2)]
    sum(losses).backward()
    return [x.grad, *losses, torch.tensor(net.training)]


@program
def frozen_in_the_middle(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        h = (h @ w).tanh()
        w.requires_grad_(False)
        h = (h @ w).sin() + 1
        w.requires_grad = True
        return h

    return [*grads(region(block, x).sum(), x, w), torch.tensor(w.requires_grad)]


@program(refused="did different work")
def a_parameter_replaced_before_backward(region):
    weights, x = nn.ParameterDict({"w": torch.randn(8, 8)}), leaf(4, 8)
    y = region(lambda h: (h @ weights["w"]).tanh(), x)
    weights["w"] = nn.Parameter(torch.randn(8, 8))
    return grads(y.sum(), x)


@program
def a_table_made_when_it_is_needed(region):
    x = leaf(4, 8)

    class Rotates(nn.Module):
        table = None

        def forward(self, h):
            if self.table is None:
                self.table = torch.arange(8.0).sin()
            return (h * self.table).sin().exp()

    module = Rotates()
    return [*grads(region(module, x).sum(), x), module.table]


@program
def parametrized_in_the_older_way(region):
    first, x = nn.utils.weight_norm(nn.Linear(8, 8)), leaf(4, 8)
    second = nn.utils.spectral_norm(nn.Linear(8, 8))
    y = region(lambda h: second(first(h.sin())).exp(), x)
    return [*grads(y.sum(), x, first.weight_g, first.weight_v, second.weight_orig), second.weight_u]
