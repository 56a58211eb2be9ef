"""Random numbers from a key: their distribution, dropout, and the same numbers whatever is stacked or drawn in advance."""

import pytest
import torch

from timex.engine import Noise, dropout, mix, normal_from_uniform, residual, stacked


def test_noise_is_uniform_independent_and_the_same_for_every_stack():
    noise = Noise(mix(torch.tensor(7)))
    u, v = noise.uniform(200_000), noise.uniform(200_000)
    assert u.min() > 0
    assert u.max() < 1
    assert u.mean().item() == pytest.approx(0.5, abs=0.003)
    assert u.var().item() == pytest.approx(1 / 12, abs=0.001)
    for a, b in ((u, v), (u[1:], u[:-1]), (u, Noise(mix(torch.tensor(8))).uniform(200_000))):
        assert torch.corrcoef(torch.stack([a, b]))[0, 1].abs() < 0.01
    keys = mix(torch.arange(3))
    several = torch.vmap(lambda key: Noise(key).uniform(4, 5))(keys)
    for i in range(3):
        torch.testing.assert_close(several[i], Noise(keys[i]).uniform(4, 5), rtol=0, atol=0)


def test_dropout_keeps_the_mean_and_the_rate():
    x = torch.ones(300, 301)
    dropped = dropout(x, 0.25, Noise(mix(torch.tensor(1))))
    assert (dropped == 0).float().mean().item() == pytest.approx(0.25, abs=0.005)
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.01)
    assert dropout(x, 0.25, None) is x


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.25, 0.9])
def test_keep_looks_at_one_byte_an_element(rate):
    key = mix(torch.tensor(3))
    words = mix(mix(key) + torch.arange(250)).tolist()  # 2,000 bytes, every value of a byte among them
    want = [(word >> shift) & 255 for word in words for shift in range(0, 64, 8)][:1998]
    signed = [byte - 256 if byte > 127 else byte for byte in want]
    kept = Noise(key).keep((2, 999), rate)
    assert kept.flatten().tolist() == [byte >= round(rate * 256) - 128 for byte in signed]


def test_residual_is_the_sum_with_a_dropped_branch():
    h, branch = torch.arange(15.0).view(3, 5), torch.arange(1.0, 16.0).view(3, 5)
    key = mix(torch.tensor(2))
    torch.testing.assert_close(residual(h, branch, 0.4, Noise(key)), h + dropout(branch, 0.4, Noise(key)))
    for rate, noise in ((0.0, Noise(key)), (0.4, None)):
        assert torch.equal(residual(h, branch, rate, noise), h + branch)
    stack = stacked(lambda h, branch, key: residual(h, branch, 0.4, Noise(key)))
    both = stack(torch.stack([h, branch]), torch.stack([branch, h]), torch.stack([key, key]))
    torch.testing.assert_close(both[0], residual(h, branch, 0.4, Noise(key)))
    torch.testing.assert_close(both[1], residual(branch, h, 0.4, Noise(key)))


def test_numbers_drawn_in_advance_are_the_same():
    """A pool only changes how many are hashed at once; what goes beyond it is hashed as it comes."""
    key = mix(torch.tensor(5))

    def draws(noise):
        return [noise.uniform(3, 7), noise.keep((5, 9), 0.3), noise.uniform(4), noise.keep((2, 50), 0.1)]

    fresh = draws(Noise(key))
    for pool in (1, 20, 40, 1000):
        for a, b in zip(fresh, draws(Noise(key, pool)), strict=True):
            assert torch.equal(a, b)
    stacked_draws = stacked(lambda k: tuple(draws(Noise(k, 25))))(torch.stack([key, key + 1]))
    for a, b in zip(fresh, stacked_draws, strict=True):
        assert torch.equal(a, b[0])
        assert not torch.equal(a, b[1])


def test_normal_from_uniform_is_the_normal_quantile():
    # The 2.5, 50 and 97.5 % quantiles of the standard normal.
    got = normal_from_uniform(torch.tensor([0.025, 0.5, 0.975], dtype=torch.float64))
    assert got.tolist() == pytest.approx([-1.9599639845, 0.0, 1.9599639845])


def test_normal_from_uniform_is_finite_at_the_ends():
    ends = normal_from_uniform(torch.tensor([0.0, 1.0]))
    assert ends.tolist() == pytest.approx([-5.166, 5.166], abs=1e-2)


def test_normal_from_uniform_under_vmap():
    u = torch.rand(3, 7, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(torch.vmap(normal_from_uniform)(u), normal_from_uniform(u))
