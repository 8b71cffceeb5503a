"""What the cases of reductions, scans, sorting and routing cannot show: how near sums of millions
are, where ties and NaN lie in long rows, tokens whose gates are no numbers."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Array
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

each_driver = pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])
each_path = pytest.mark.parametrize("variant", ["portable", "subgroup"])


@pytest.fixture
def device(request: pytest.FixtureRequest, driver: str) -> VulkanDevice:
    found: VulkanDevice = request.getfixturevalue(driver)
    return found


def reduced(device: VulkanDevice, bundle: Bundle, case: str, x: Array) -> Array:
    posed = problem(case)
    outputs, _ = compute(device, bundle, posed, "auto", {"x": x.reshape(posed.array_shape("x"))})
    return outputs["y"]


@pytest.fixture(scope="module")
def millions() -> Array:
    """Ten million, and not around 0."""
    random = np.random.Generator(np.random.Philox(key=4))
    return random.standard_normal(10**7, np.float32) + np.float32(0.01)


@each_driver
@pytest.mark.parametrize("kernel", ["sum", "mean"])
def test_ten_million_are_summed_without_loss(
    device: VulkanDevice, bundle: Bundle, millions: Array, kernel: str
) -> None:
    exact = getattr(millions.astype(np.float64), kernel)()
    rows = reduced(device, bundle, f"{kernel}/f32/b1_c1_h1_w10000000", millions)
    columns = reduced(device, bundle, f"{kernel}/f32/b1_c1_h2500_w4000/axes=hw", millions)
    apart = reduced(device, bundle, f"{kernel}/f32/b1_c1_h10000000_w1/axes=h", millions)
    assert abs(np.array([rows.item(), columns.item(), apart.item()]) / exact - 1).max() < 1.2e-7


@each_driver
def test_what_cancels_leaves_the_rest(device: VulkanDevice, bundle: Bundle) -> None:
    random = np.random.Generator(np.random.Philox(key=5))
    large = random.standard_normal(50_000).astype(np.float32) * np.float32(1e6)
    x = random.permutation(
        np.concatenate([large, -large, np.array([0.5, 0.25, 0.125], np.float32)])
    )
    assert reduced(device, bundle, f"sum/f32/b1_c1_h1_w{x.size}", x).item() == 0.875


@each_driver
@each_path
def test_two_million_running_sums(
    device: VulkanDevice, bundle: Bundle, millions: Array, variant: str
) -> None:
    x = millions[: 2 * 10**6].reshape(1, -1)
    outputs, _ = compute(device, bundle, problem("cumsum/f32/h1_w2000000"), variant, {"x": x})
    exact = x.cumsum(axis=1, dtype=np.float64)
    assert np.abs(outputs["y"] - exact).max() < 2e-7 * np.abs(exact).max()


@each_driver
@pytest.mark.parametrize("kernel", ["argmax", "argmin"])
@pytest.mark.parametrize("count", [5, 1000, 70_003])
def test_the_first_of_equal_ones_is_found(
    device: VulkanDevice, bundle: Bundle, kernel: str, count: int
) -> None:
    zeros = np.zeros(count, np.float32)
    zeros[::2] = -0.0
    case = f"{kernel}/f32/b1_c1_h1_w{count}"
    assert reduced(device, bundle, case, zeros).item() == 0
    zeros[[count // 2, count - 1]] = np.nan
    assert reduced(device, bundle, case, zeros).item() == count // 2
    strided = reduced(device, bundle, f"{case}/layout=strided", np.full(count, np.inf, "f4"))
    assert strided.item() == 0


@each_driver
@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_equal_numbers_stay_as_they_came(device: VulkanDevice, bundle: Bundle, order: str) -> None:
    x = np.resize(np.array([0.0, -0.0], np.float32), (2, 5000))
    outputs, _ = compute(
        device, bundle, problem(f"argsort/f32/h2_w5000/order={order}"), "auto", {"x": x}
    )
    np.testing.assert_array_equal(outputs["y"], np.resize(np.arange(5000), (2, 5000)))
    top, _ = compute(device, bundle, problem("top_k/f32/h2_w5000_k9"), "auto", {"x": x})
    np.testing.assert_array_equal(top["ids"], np.resize(np.arange(9), (2, 9)))
    np.testing.assert_array_equal(np.signbit(top["values"]), np.signbit(x[:, :9]))


@each_driver
def test_small_gates_have_roots_where_their_squares_have_none(
    device: VulkanDevice, bundle: Bundle
) -> None:
    logits = np.array([[-120, -100, -17, -16, -15, 0, 3, 80]], np.float32)
    posed = problem("top_k_moe/f32/n1_e8_k8/gating=sqrt_softplus")
    outputs, _ = compute(
        device, bundle, posed, "auto", {"logits": logits, "bias": np.zeros(1, np.float32)}
    )
    np.testing.assert_array_equal(outputs["ids"], [[7, 6, 5, 4, 3, 2, 1, 0]])
    exact = np.sqrt(np.logaddexp(0, logits[:, ::-1].astype(np.float64)))
    np.testing.assert_allclose(outputs["weights"], exact, rtol=3e-7)


@each_driver
def test_groups_go_by_their_two_best_experts(device: VulkanDevice, bundle: Bundle) -> None:
    """The best expert of all is in no group that is used; equal sums go to the lower group."""
    odds = [[0.9, 0.1, 0.6, 0.5, 0.8, 0.4, 0.25, 0.25], [0.5] * 8]
    logits = np.log(np.array(odds) / (1 - np.array(odds))).astype(np.float32)
    bias = np.array([0, 0, 0, 0, 0, 0, 0.75, 0], np.float32)
    params = "gating=sigmoid_biased,groups=4,groups_used=2,least_sum=2.0,normalise=selected"
    posed = problem(f"top_k_moe/f32/n2_e8_k3/{params}")
    outputs, _ = compute(device, bundle, posed, "auto", {"logits": logits, "bias": bias})
    np.testing.assert_array_equal(outputs["ids"], [[6, 4, 5], [6, 0, 1]])
    np.testing.assert_allclose(outputs["weights"], [[0.125, 0.4, 0.2], [0.25] * 3], rtol=1e-6)


@each_driver
@pytest.mark.parametrize("gating", ["softmax", "softmax_late", "sigmoid", "sqrt_softplus"])
def test_gates_that_are_no_numbers(device: VulkanDevice, bundle: Bundle, gating: str) -> None:
    rows = [[1, np.nan, 3, 2], [-np.inf, -np.inf, 0, -np.inf], [-np.inf] * 4]
    arrays = {"logits": np.array(rows, np.float32), "bias": np.zeros(4, np.float32)}
    posed = problem(f"top_k_moe/f32/n3_e4_k2/gating={gating}")
    outputs, _ = compute(device, bundle, posed, "auto", arrays)
    np.testing.assert_array_equal(outputs["ids"], [[1, 2], [2, 0], [0, 1]])
    one = {"sigmoid": 0.5, "sqrt_softplus": np.sqrt(np.log(2))}.get(gating, 1.0)
    np.testing.assert_allclose(outputs["weights"][1:], [[one, 0], [0, 0]], rtol=1e-7)
    others = {"sigmoid": 1 / (1 + np.exp(-3)), "sqrt_softplus": np.sqrt(np.log1p(np.exp(3)))}.get(
        gating, np.nan
    )
    np.testing.assert_allclose(outputs["weights"][0], [np.nan, others], rtol=1e-6)
