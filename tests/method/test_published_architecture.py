"""The published architecture (METHOD.md section 4, 13 to 15) against slow written-out forms.

No residual around self-attention, dropout of the attention weights, and two outputs with a softmax for one channel.

Shapes: B samples, T steps, D channels, M = 16 + D the width of the layers.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from parts import MEAN, STD, TAU, B, C, D, T, config_of, noise, paper_model, seeded, series, transformer

from timex.method.config import TimeXConfig
from timex.method.generator import Generator
from timex.method.model import TimeXModel
from timex.nn.layers import EncoderLayer
from timex.reference import ResidualTransformer, Transformer

KEPT = 4
"""The one step that is kept."""


def encoder_layer_by_loop(layer, h, mask, noise):
    """norm1(dropout(attention(h))), then norm2(h + dropout(feed forward(h))), one sample and one step at a time."""
    a, width = layer.attention, h.shape[2]
    weights = torch.zeros(len(h), h.shape[1], h.shape[1])
    for i, sample in enumerate(h):
        for t, step in enumerate(sample):
            scores = [float(a.q_proj(step) @ a.k_proj(other)) / math.sqrt(width) for other in sample]
            total = sum(math.exp(s) for s in scores)
            for s, score in enumerate(scores):
                weights[i, t, s] = math.exp(score) / total * mask[i, t] * mask[i, s]

    def dropped(x, rate):
        return x if noise is None else x * noise.keep(x.shape, rate) / (1 - rate)

    weights = dropped(weights, a.rate)  # after the mask, and not rescaled to sum 1
    attended = torch.stack([w @ a.v_proj(sample) for w, sample in zip(weights, h, strict=True)])
    h = layer.norm1(dropped(a.out_proj(attended), layer.rate))
    inner = dropped(F.relu(layer.feed_forward.linear1(h)), layer.rate)
    return layer.norm2(h + dropped(layer.feed_forward.linear2(inner), layer.rate))


@pytest.mark.parametrize("key", [None, 7])
@torch.no_grad()
def test_the_encoder_layer_is_its_written_out_form(key):
    layer = seeded(lambda: EncoderLayer(D, 9, rate=0.25, with_residual=False, attention_rate=0.5))
    h, mask = series(), (series(d=1, seed=2)[..., 0] > -0.5).float()
    drawn = [None if key is None else noise(key) for _ in range(2)]
    torch.testing.assert_close(layer(h, mask, None, drawn[0]), encoder_layer_by_loop(layer, h, mask, drawn[1]))


def test_the_paper_preset_has_this_architecture_everywhere():
    """Reference, surrogate and the encoder of the generator; the decoder of the generator keeps its residuals."""
    reference = transformer(kind=Transformer, dropout=0.25)
    model = seeded(lambda: TimeXModel(reference, TimeXConfig.paper("lowvar")))
    for encoder in (reference.encoder, model.encoder.encoder, model.generator.encoder):
        assert [layer.with_residual for layer in encoder.layers] == [False]
        assert all(layer.attention.rate == layer.rate > 0 for layer in encoder.layers)


# ------------------------------------------------------------------------------------------------ what the mask hides


def surrogate(kind, **options):
    """TimeX of a transformer of two layers, hiding steps from attention alone."""
    return paper_model(transformer(kind=kind, n_layers=2, **options), {"mask.hide": "attention"}).double()


def embedding(model, x, kept):
    """The surrogate's embedding of x (B, T, D) when the given steps are kept."""
    mask = torch.zeros_like(x)
    mask[:, kept] = 1
    x_m, attended = model.masked(x, None, mask, MEAN.double())
    return model.encoder.output(x_m, mask=attended).z


def test_with_nothing_kept_the_embedding_does_not_depend_on_x():
    a, b = series(seed=1).double(), series(seed=2).double()
    with torch.no_grad():
        model = surrogate(Transformer)
        assert torch.equal(embedding(model, a, []), embedding(model, b, []))
        leaky = surrogate(ResidualTransformer)  # the residual carries hidden values past the mask
        assert (embedding(leaky, a, []) - embedding(leaky, b, [])).abs().amax(1).min() > 1e-3


def normaliser(model, x):
    """The sum of the softmax of the kept step's query over all keys, relative to the kept step's own term."""
    layer = model.encoder.encoder.layers[0]
    code = torch.arange(1, T + 1, dtype=torch.float64)
    waves = code[:, None] * T ** (-torch.arange(8, dtype=torch.float64) / 7)
    h = torch.cat([waves.sin(), waves.cos(), x], dim=-1)  # (T, M)
    q, k = layer.attention.q_proj(h[KEPT]), layer.attention.k_proj(h)
    scores = k @ q / math.sqrt(h.shape[1])
    return (scores - scores[KEPT]).exp().sum()


@pytest.mark.parametrize("kind", [Transformer, ResidualTransformer])
def test_with_one_step_kept_the_others_act_through_the_softmax_normaliser_alone(kind):
    """The gradient of every part of the embedding by the other steps is a multiple of the normaliser's."""
    model, x = surrogate(kind), series(n=1)[0].double()
    others = [t for t in range(T) if t != KEPT]

    def of_others(function):
        def call(values):
            whole = x.clone()
            whole[others] = values
            return function(whole)

        return torch.autograd.functional.jacobian(call, x[others]).flatten(-2)

    jacobian = of_others(lambda v: embedding(model, v[None], [KEPT])[0])  # (M, (T - 1) D)
    direction = of_others(lambda v: normaliser(model, v))
    direction = direction / direction.norm()
    rest = jacobian - (jacobian @ direction)[:, None] * direction
    share = float(rest.norm() / jacobian.norm())
    assert jacobian.norm() > 1e-6
    assert share < 1e-6 if kind is Transformer else share > 0.1


# ------------------------------------------------------------------------------------------------------- the generator


@torch.no_grad()
def test_for_one_channel_p_is_the_second_of_two_outputs_after_a_softmax():
    generator = seeded(lambda: Generator(1, T, 1, 7, 0.0, two_outputs=True))
    outputs = []
    generator.out.register_forward_hook(lambda m, i, out: outputs.append(out))
    p = generator(series(d=1))
    assert p.shape == (B, T, 1)
    for i in range(B):
        for t in range(T):
            a, b = outputs[0][i, t].tolist()
            assert float(p[i, t, 0]) == pytest.approx(math.exp(b) / (math.exp(a) + math.exp(b)), abs=1e-6)


@torch.no_grad()
def test_for_several_channels_p_is_a_sigmoid_of_one_output_each():
    generator = seeded(lambda: Generator(D, T, 1, 7, 0.0, two_outputs=True))
    outputs = []
    generator.out.register_forward_hook(lambda m, i, out: outputs.append(out))
    torch.testing.assert_close(generator(series()), 1 / (1 + (-outputs[0]).exp()))


@pytest.mark.parametrize("d", [1, D])
def test_the_last_layer_starts_with_xavier_weights_and_a_bias_of_a_hundredth(d):
    out = seeded(lambda: Generator(d, T, 1, 7, 0.0, two_outputs=True)).out
    rows = 2 if d == 1 else d
    bound = math.sqrt(6 / (rows + 16 + d))
    assert out.weight.shape == (rows, 16 + d)
    assert 0.8 * bound < float(out.weight.detach().abs().max()) <= bound
    assert (out.bias == 0.01).all()


def test_the_switches_reach_the_model():
    reference = transformer(d=1, kind=Transformer)
    model = TimeXModel(reference, config_of({"generator.output": "softmax", "mask.hide": "auto"}, objective="paper"))
    assert model.masking == "attention"
    assert model.generator.out.out_features == 2
    with torch.no_grad():
        out = model(series(d=1), None, None, MEAN[:, :1], STD[:, :1], TAU, "mean", None, None)
    assert (out.p.shape, out.logits_e.shape) == ((B, T, 1), (B, C))
