"""What the hardware allows: copy bandwidth, matmul rate, and the floor of a training step.

The floor is the time of the matrix products (cuBLAS, in the sizes a fused model has) and of attention (cuDNN or flash,
whichever is faster) alone, each measured by itself: no norm, rope, activation, softmax, copy or launch gap.
"""
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

HEAD_CHUNK = 2048


def device_ms(work, repeats=11, warmup=3):
    """Median milliseconds on the device, by events."""
    for _ in range(warmup):
        work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(repeats):
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[repeats // 2]


def random(*sizes):
    return torch.randn(*sizes, device="cuda", dtype=torch.bfloat16) * 0.1


def machine():
    """Bytes read and written by a copy, and the rate of a large product: what kernels are held against."""
    source = torch.empty(2**32, dtype=torch.uint8, device="cuda")
    copy = torch.empty_like(source)
    copy_ms = device_ms(lambda: copy.copy_(source))
    del copy
    a, b = random(8192, 8192), random(8192, 8192)
    matmul_ms = device_ms(lambda: a @ b)
    return {
        "copy_gb_per_s": 2 * source.numel() / copy_ms / 1e6,
        "matmul_tflop_per_s": 2 * 8192**3 / matmul_ms / 1e9,
    }


def product_ms(tokens, inputs, outputs):
    """Forward, gradient of the input, gradient of the weight."""
    x, w, dy = random(tokens, inputs), random(outputs, inputs), random(tokens, outputs)
    return device_ms(lambda: x @ w.t()), device_ms(lambda: dy @ w), device_ms(lambda: dy.t() @ x)


def attention_ms(shape, backend):
    """Forward, and forward with backward."""
    model = shape.model
    sizes = ((model.heads, True), (model.kv_heads, True), (model.kv_heads, True), (model.heads, False))
    q, k, v, grad = (random(shape.batch, n, shape.seq, model.head_dim).requires_grad_(g) for n, g in sizes)

    def forward():
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    def both():
        torch.autograd.grad(forward(), (q, k, v), grad)

    with sdpa_kernel(backend):
        return device_ms(forward), device_ms(both)


def floor(shape):
    """Milliseconds of a step without recompute, and with all of a block but attention, or all, recomputed.

    Recompute leaves out the down projection: nothing needs its result, and early stop spares it.
    """
    model, tokens = shape.model, shape.batch * shape.seq
    qkv = (model.heads + 2 * model.kv_heads) * model.head_dim
    sizes = ((model.hidden, qkv), (model.heads * model.head_dim, model.hidden),
             (model.hidden, 2 * model.intermediate), (model.intermediate, model.hidden))
    products = [product_ms(tokens, *size) for size in sizes]
    forward = sum(times[0] for times in products)
    backward = sum(times[1] + times[2] for times in products)
    chunk = min(tokens, HEAD_CHUNK)
    head = sum(product_ms(chunk, model.hidden, model.vocabulary)) * tokens / chunk
    attention = {}
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        try:
            attention[name] = attention_ms(shape, backend)
        except RuntimeError as error:
            print(f"attention {name}: {error}", flush=True)
    attention_forward, attention_both = min(attention.values(), key=lambda times: times[1])
    none = model.layers * (forward + backward + attention_both) + head
    again = model.layers * (forward - products[-1][0])
    return {
        "none": none,
        "attention": none + again,
        "full": none + again + model.layers * attention_forward,
        "parts": {
            "layers forward": model.layers * forward,
            "layers backward": model.layers * backward,
            "head": head,
            "attention forward": model.layers * attention_forward,
            "attention backward": model.layers * (attention_both - attention_forward),
        },
    }
