"""The shapes that the GPU benchmarks measure, as bench_gpu knows them, and how a command line names them: 1b:8x2048."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Model:
    title: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    tied: bool


MODELS = {
    "1b": Model("Llama-3.2-1B", 16, 2048, 32, 8, 64, 8192, 128256, True),
    "8b": Model("Llama-3.1-8B", 32, 4096, 32, 8, 128, 14336, 128256, False),
    "tiny": Model("tiny", 4, 64, 4, 2, 16, 128, 512, True),  # to try the harness without a GPU
}


LAUNCH_BOUND = 1024  # tokens up to which a step is bound by launches, and its time by chance


@dataclasses.dataclass(frozen=True)
class Shape:
    name: str
    batch: int
    seq: int

    @classmethod
    def parse(cls, text):
        name, _, size = text.partition(":")
        batch, _, seq = size.partition("x")
        if name not in MODELS or not (batch.isdigit() and seq.isdigit()):
            raise ValueError(f"the shape {text!r} is not <model>:<batch>x<tokens> with a model of {', '.join(MODELS)}")
        return cls(name, int(batch), int(seq))

    def __str__(self):
        return f"{self.name}:{self.batch}x{self.seq}"

    @property
    def model(self):
        return MODELS[self.name]

    @property
    def is_launch_bound(self):
        return self.batch * self.seq <= LAUNCH_BOUND

    @property
    def title(self):
        return f"{self.model.title} shape, {self.batch} x {self.seq} tokens"
