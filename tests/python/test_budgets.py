"""Byte budgets under models: held by the allocator, exact, monotone; a plan for each batch shape."""

import re
import threading

import pytest
import torch
import transformers
from gradients import assert_same_bits
from test_enable import Plain, Residual, llama, state_after

import reprise

WIDE = dict(hidden_size=64, intermediate_size=160, num_hidden_layers=4)


def ids(rows=2, length=64):
    return torch.randint(3, 120, (rows, length), generator=torch.Generator().manual_seed(length))


def step_of(rows=2, length=64, **more):
    def step(model):
        return model(input_ids=ids(rows, length), labels=ids(rows, length), **more).loss

    return step


def curve_of(model, step=step_of()):
    """The (peak bytes, extra ms) of all plans."""
    enabled = reprise.enable(model, budget="1GiB")
    state_after(model, step)
    curve = enabled.plans[0].curve
    reprise.disable(model)
    return curve


def budgets_of(curve, count=5):
    """Budgets from a little above the least to all. Plans aim 1 % and 16 KiB below a budget."""
    least, most = curve[0][0], curve[-1][0]
    return [int((least + (most - least) * i / (count - 1)) * 1.011) + (17 << 10) for i in range(count)]


def test_budgets_are_held_exact_and_monotone():
    model = llama(**WIDE, attention_dropout=0.1)
    plain = state_after(model, step_of())
    curve = curve_of(model)
    assert len(curve) > 4
    extra, recomputed = float("inf"), []
    for budget in budgets_of(curve):
        enabled = reprise.enable(model, budget=budget)
        assert_same_bits(state_after(model, step_of()), plain)  # recorded
        for _ in range(2):
            reprise.reset_stats()
            assert_same_bits(state_after(model, step_of()), plain)
            assert 0 < enabled.peak_bytes <= budget
        assert enabled.plans[0].peak_bytes <= budget and enabled.plans[0].budget == budget
        recomputed.append(reprise.stats()["entered"])
        extra = min(extra, recomputed[-1])
        reprise.disable(model)
    assert recomputed[0] > 0 and recomputed[-1] == 0
    assert recomputed == sorted(recomputed, reverse=True)


def test_plans_of_one_recording_predict_less_time_for_more_bytes():
    model = llama(**WIDE)
    enabled = reprise.enable(model, budget="1GiB")
    state_after(model, step_of())
    plans = [enabled.plans[0].with_budget(budget) for budget in budgets_of(enabled.plans[0].curve, 9)]
    assert all(a.extra_ms >= b.extra_ms and a.peak_bytes <= b.peak_bytes for a, b in zip(plans, plans[1:]))


def test_a_budget_that_is_too_small_names_the_least_which_works():
    model = llama(**WIDE)
    plain = state_after(model, step_of())
    reprise.enable(model, budget="10KiB")
    with pytest.raises(RuntimeError, match="no plan fits") as error:
        state_after(model, step_of())
    least = int(re.search(r"the least budget for this step is (\d+) bytes", str(error.value))[1])
    reprise.disable(model)
    enabled = reprise.enable(model, budget=least)
    for _ in range(3):
        assert_same_bits(state_after(model, step_of()), plain)
    assert enabled.peak_bytes <= least


def test_every_shape_has_its_plan():
    model = llama(**WIDE)
    budget = budgets_of(curve_of(model))[1]
    enabled = reprise.enable(model, budget=budget)
    run = lambda length: state_after(model, step_of(length=length))  # noqa: E731
    run(64)
    assert len(enabled.plans) == 1
    run(60)  # covered by the first
    assert len(enabled.plans) == 1
    run(32)  # much smaller: recorded
    assert len(enabled.plans) == 2
    reprise.reset_stats()
    run(48)  # between: planned from both, without a recording
    assert len(enabled.plans) == 3 and 0 < enabled.peak_bytes <= budget
    assert enabled.steps == 4
    text = enabled.describe()
    assert text.count("of activations at the peak") == 3 and "model.layers." in text


def test_padding_and_its_mask_are_another_shape():
    model = llama(**WIDE)
    mask = torch.ones(2, 64, dtype=torch.long)
    padded = mask.clone()
    padded[0, 40:] = 0
    plain = {m: state_after(model, step_of(attention_mask=value)) for m, value in (("ones", mask), ("pad", padded))}
    enabled = reprise.enable(model, budget=budgets_of(curve_of(model, step_of(attention_mask=padded)))[2])
    for _ in range(2):
        for name, value in (("ones", mask), ("pad", padded)):
            assert_same_bits(state_after(model, step_of(attention_mask=value)), plain[name])
    assert len(enabled.plans) == 2


def test_gradients_accumulate():
    def twice(model):
        torch.manual_seed(1)
        model.zero_grad()
        for length in (64, 64, 32):
            step_of(length=length)(model).backward()
        return {name: value.grad.clone() for name, value in model.named_parameters()}

    model = llama(**WIDE)
    plain = twice(model)
    budget = budgets_of(curve_of(model))[1]
    enabled = reprise.enable(model, budget=budget)
    for _ in range(2):
        assert_same_bits(twice(model), plain)
        assert enabled.peak_bytes <= budget
    assert enabled.steps == 6


def test_budgets_may_cover_gradients():
    model, short = llama(**WIDE), step_of(length=4)
    activations = curve_of(model, short)[0][0]
    enabled = reprise.enable(model, budget="1GiB", counts_gradients=True)
    state_after(model, short)
    assert enabled.plans[0].curve[0][0] > activations + sum(p.nbytes for p in model.parameters()) // 2


def test_autocast_around_forward_only():
    def step(model):
        with torch.autocast("cpu", torch.bfloat16):
            return step_of()(model)

    model = llama(**WIDE)
    plain = state_after(model, step)
    enabled = reprise.enable(model, budget=budgets_of(curve_of(model, step))[1])
    for _ in range(3):
        assert_same_bits(state_after(model, step), plain)
        assert not torch.is_autocast_enabled("cpu")
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.float32
    assert enabled.peak_bytes > 0


def test_blocks_of_any_module_have_budgets():
    torch.manual_seed(0)
    model = Plain().train()
    step = lambda model: model(ids(4, 256)).square().mean()  # noqa: E731
    plain = state_after(model, step)
    enabled = reprise.enable(model, blocks=Residual, budget="1GiB")
    state_after(model, step)
    budget = budgets_of(enabled.plans[0].curve)[1]
    reprise.disable(model)
    enabled = reprise.enable(model, blocks=Residual, budget=budget)
    for _ in range(3):
        assert_same_bits(state_after(model, step), plain)
    assert 0 < enabled.peak_bytes <= budget


def test_errors_in_a_step_leave_the_next_one_alone():
    model = llama(**WIDE)
    plain = state_after(model, step_of())
    enabled = reprise.enable(model, budget=budgets_of(curve_of(model))[1])
    for _ in range(2):  # while it is recorded, and while it is planned
        with pytest.raises(IndexError):
            model(input_ids=ids() + 1000)
        loss = step_of()(model)
        loss.register_hook(lambda grad: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            loss.backward()
        assert_same_bits(state_after(model, step_of()), plain)
    assert enabled.steps == 2


def test_a_step_that_takes_more_is_stopped_by_the_allocator():
    model = llama(**WIDE)
    enabled = reprise.enable(model, budget=budgets_of(curve_of(model))[2])
    state_after(model, step_of())
    hook = model.model.norm.register_forward_hook(lambda *_: torch.empty(32 << 20))
    with pytest.raises(torch.OutOfMemoryError, match="its budget is"):
        state_after(model, step_of())
    hook.remove()
    state_after(model, step_of())
    assert enabled.steps == 2


def test_a_forward_without_its_backward_is_said_where_it_matters():
    one, two = llama(**WIDE), llama(**WIDE)
    reprise.enable(one, budget="1GiB")
    reprise.enable(two, budget="1GiB")
    loss = step_of()(one)
    with pytest.raises(RuntimeError, match="before the backward of"):
        step_of()(two)
    loss.backward()
    step_of()(two).backward()


def test_blocks_outside_of_the_model_have_no_plan():
    import copy

    model = llama(**WIDE)
    reprise.enable(model, budget="1GiB")
    with pytest.raises(RuntimeError, match="outside of the model's forward"):
        step_of()(copy.deepcopy(model))


def test_losses_that_call_the_model_without_its_head():
    def step(model):
        hidden = model.model(input_ids=ids()).last_hidden_state
        return (hidden @ model.lm_head.weight.t()).square().mean()

    model = llama(**WIDE)
    plain = state_after(model, step)
    enabled = reprise.enable(model, budget=budgets_of(curve_of(model, step))[1])
    for _ in range(3):
        assert_same_bits(state_after(model, step), plain)
    assert enabled.steps == 3 and enabled.peak_bytes > 0


def test_several_forwards_of_one_step():
    def step(model):
        return step_of(length=64)(model) - step_of(length=32)(model)

    model = llama(**WIDE)
    plain = state_after(model, step)
    budget = budgets_of(curve_of(model, step))[1]
    enabled = reprise.enable(model, budget=budget)
    for _ in range(3):
        assert_same_bits(state_after(model, step), plain)
    assert enabled.steps == 3 and 0 < enabled.peak_bytes <= budget
    # Now one forward only: the plan is for another step, and is made again.
    plain = state_after(model, step_of())
    assert_same_bits(state_after(model, step_of()), plain)


def test_two_models_in_two_threads():
    failures = []

    def train(seed):
        try:
            model = llama(**WIDE)
            reprise.enable(model, budget="1GiB")
            torch.manual_seed(seed)
            for _ in range(3):
                model.zero_grad()
                step_of(length=32 * seed)(model).backward()
            grads = {name: value.grad for name, value in model.named_parameters()}
            reprise.disable(model)
            model.zero_grad()
            step_of(length=32 * seed)(model).backward()
            assert_same_bits(grads, {name: value.grad for name, value in model.named_parameters()})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=train, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_mixture_of_experts_with_other_routings():
    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=4, use_cache=False,
    )  # fmt: skip
    model = transformers.MixtralForCausalLM(config).train()
    steps = [lambda m, seed=seed: m(input_ids=(t := (ids() * seed) % 117 + 3), labels=t).loss for seed in range(1, 6)]
    plain = [state_after(model, step) for step in steps]
    budget = budgets_of(curve_of(model, steps[0]))[2]
    enabled = reprise.enable(model, budget=budget)
    for step, expected in zip(steps * 2, plain * 2):
        assert_same_bits(state_after(model, step), expected)
        assert enabled.peak_bytes <= budget
    assert len(enabled.plans) == 1


def test_a_page_is_written(tmp_path):
    pytest.importorskip("reprise._report")
    model = llama(**WIDE)
    enabled = reprise.enable(model, budget=budgets_of(curve_of(model))[2])
    with pytest.raises(ValueError, match="no plan yet"):
        enabled.report(tmp_path / "memory.html")
    for _ in range(3):
        state_after(model, step_of())
    enabled.report(tmp_path / "memory.html")
    page = (tmp_path / "memory.html").read_text()
    assert "LlamaForCausalLM" in page and "<svg" in page and "http" not in re.sub(r"http://www\.w3\.org\S*", "", page)
    reprise.disable(model)
    enabled = reprise.enable(model)
    with pytest.raises(ValueError, match="only within a budget"):
        enabled.report(tmp_path / "memory.html")
