"""PyTorch's side of random_cases.py: the tensors of a case, its function compiled and eager, and compiling ahead in other processes.

Each tensor is an array of windows as `plimsoll bench` makes them: as many as cover 512 MiB, and five times the L2, with the largest
tensor, at least two; windows begin at multiples of 4 KiB.
"""
import math
import multiprocessing
import os
import signal
import time

import contestants as c
import torch_text
from drawn_case import ITEM

GRAIN = 4096
MOST_WINDOWS = 8192
BLOCK = 8 * c.MIB
RANGES = [(-3.0, 3.0), (0.01, 8.0), (0.01, 0.99), (1.01, 8.0)]
CHECKED = 1 << 22
"""Elements at each end that are compared with the reference."""
TOLERANCE = {"f64": 1e-9, "f32": 2e-4, "f16": 2e-3, "bf16": 1e-2, "f8e4m3": 0.15, "f8e5m2": 0.3}
"""Of the value, or of the root mean square of the output."""
STRAY = 0.01
"""Share of elements that may be further off: cancellation, and values next to a step of `floor`, `round` or a comparison."""
TIMEOUT = 180.0
"""Seconds for compiling one batch."""


def reach(item):
    """elements of memory from the first to the last"""
    if item.strides is None:
        return math.prod(item.shape)
    return 1 + sum((extent - 1) * stride for extent, stride in zip(item.shape, item.strides))


class Side:
    """The tensors of a case in each window, and its functions."""

    def __init__(self, case, device="cuda", window_count=None):
        import torch

        self.torch, self.case, self.device = torch, case, device
        self.names = [item.name for item in case.inputs]
        self.evaluate = torch_text.function_of(case.text, self.names, torch_text.names())
        self.reference = torch_text.function_of(case.text, self.names, torch_text.names(wide=True))
        self.targets = [self.names.index(name) if name in self.names else None for name, _ in case.outputs]
        self.types = self.output_types()
        sizes = [reach(item) * ITEM[item.dtype] for item in case.inputs]
        sizes += [math.prod(case.shape) * kind.itemsize for kind, target in zip(self.types, self.targets) if target is None]
        self.windows = window_count or self.count_windows(max(sizes))
        self.range = None

    def count_windows(self, largest):
        cache = self.torch.cuda.get_device_properties(0).L2_cache_size
        return min(max(2, math.ceil(max(c.POOL_MIN, 5 * cache) / largest)), MOST_WINDOWS)

    def output_types(self):
        """the torch types of the outputs; those without a stated type have that of their value"""
        meta = [self.torch.empty((1,) * len(self.case.shape), dtype=torch_text.dtype(item.dtype), device="meta") for item in self.case.inputs]
        values = self.evaluate(*meta)
        stated = [kind for _, kind in self.case.outputs]
        return [torch_text.dtype(kind) if kind else value.dtype for kind, value in zip(stated, values)]

    def allocate(self):
        """per window: the inputs, and the outputs that aren't in place"""
        self.arrays = [self.windows_of(torch_text.dtype(item.dtype), item.shape, item.strides, reach(item)) for item in self.case.inputs]
        count = math.prod(self.case.shape)
        fresh = [kind for kind, target in zip(self.types, self.targets) if target is None]
        self.results = [self.windows_of(kind, self.case.shape, None, count) for kind in fresh]

    def windows_of(self, kind, shape, strides, count):
        torch = self.torch
        pitch = -(-count * kind.itemsize // GRAIN) * GRAIN
        memory = torch.empty(pitch * self.windows, dtype=torch.uint8, device=self.device)
        strides = strides or torch.empty(shape, device="meta").stride()

        def tensor_of(window):
            # Over the storage, because the compiler handles views of a larger tensor in another way.
            tensor = torch.empty(0, dtype=kind, device=self.device)
            return tensor.set_(memory.untyped_storage(), window * pitch // kind.itemsize, shape, strides)

        return memory, [tensor_of(window) for window in range(self.windows)]

    def fill(self, lowest, highest):
        """fills the inputs with repeated random blocks"""
        torch = self.torch
        self.range = (lowest, highest)
        for item, (memory, _) in zip(self.case.inputs, self.arrays):
            count = min(BLOCK, memory.numel()) // ITEM[item.dtype]
            if item.dtype == "i8":
                block = torch.randint(-128, 128, (count,), dtype=torch.int8, device=self.device)
            elif item.dtype == "bool":
                block = torch.randint(0, 2, (count,), dtype=torch.uint8, device=self.device)
            else:
                block = torch.empty(count, dtype=torch.float32, device=self.device).uniform_(lowest, highest)
                block = block.to(torch_text.dtype(item.dtype))
            block, done = block.view(torch.uint8), 0
            while done < memory.numel():
                step = min(block.numel(), memory.numel() - done)
                memory[done : done + step] = block[:step]
                done += step

    def inputs(self, window):
        return [tensors[window] for _, tensors in self.arrays]

    def outputs(self, window):
        """those that are not in place"""
        return [tensors[window] for _, tensors in self.results]

    def stored(self, window):
        """all outputs in order"""
        fresh, inputs = iter(self.outputs(window)), self.inputs(window)
        return [next(fresh) if target is None else inputs[target] for target in self.targets]

    def compiled(self):
        """a function of a window"""
        torch = self.torch
        evaluate, targets = self.evaluate, self.targets

        def body(inputs, outputs):
            place = 0
            for value, target in zip(evaluate(*inputs), targets):
                if target is None:
                    outputs[place].copy_(value)
                    place += 1
                else:
                    inputs[target].copy_(value)

        torch._dynamo.reset()
        function = torch.compile(body, dynamic=False, fullgraph=True, options=c.MAX_AUTOTUNE)
        return lambda window: function(self.inputs(window), self.outputs(window))

    def eager(self):
        """a function of a window. Results that aren't in place are new tensors; those of all windows are kept, so that they rotate
        through memory as well."""
        held = {}

        def launch(window):
            inputs, fresh = self.inputs(window), []
            for value, target, kind in zip(self.evaluate(*inputs), self.targets, self.types):
                if target is not None:
                    inputs[target].copy_(value)
                elif any(value is tensor for tensor in inputs):
                    fresh.append(value.to(kind, copy=True, memory_format=self.torch.contiguous_format))
                else:
                    fresh.append(value.to(kind).contiguous())
            held[window] = fresh

        return launch

    def bytes_moved(self):
        """each input once, a broadcast one counted once, and each output once"""
        read = sum(math.prod(item.shape) * ITEM[item.dtype] for item in self.case.inputs)
        return read + math.prod(self.case.shape) * sum(kind.itemsize for kind in self.types)

    # ------------------------------------------------------------------------------------------ correctness
    def ends(self):
        """the slices of the first dimension that are compared"""
        rows = max(1, CHECKED // max(1, math.prod(self.case.shape[1:])))
        rows = min(rows, self.case.shape[0])
        return [slice(0, rows), slice(self.case.shape[0] - rows, self.case.shape[0])]

    def expected(self, part):
        """the outputs of a part of window 0 in higher precision"""
        torch = self.torch
        inputs = []
        for tensor, item in zip(self.inputs(0), self.case.inputs):
            tensor = tensor[part] if item.shape[0] == self.case.shape[0] else tensor
            if tensor.is_floating_point():
                # From 8 bits by way of f32, because not every conversion exists.
                tensor = tensor.to(torch.float32).to(torch.float64) if tensor.element_size() == 1 else tensor.to(torch.float64)
            inputs.append(tensor)
        shape = (part.stop - part.start, *self.case.shape[1:])
        return [value.expand(shape) for value in self.reference(*inputs)]

    def choose_range(self):
        """fills the inputs with the first range of data whose results are finite; returns the expected results of each end"""
        for lowest, highest in RANGES:
            self.fill(lowest, highest)
            expected = [self.expected(part) for part in self.ends()]
            if all(value.isfinite().all() for values in expected for value in values):
                return expected
        self.fill(*RANGES[0])
        return [self.expected(part) for part in self.ends()]

    def difference(self, expected):
        """a text that says which output of window 0 is wrong, or None"""
        for part, values in zip(self.ends(), expected):
            for (name, _), found, value, kind in zip(self.case.outputs, self.stored(0), values, self.types):
                share = self.share_outside(found[part], value, kind)
                if share > STRAY:
                    return f"{name}: {share:.2%} of the elements differ from eager PyTorch in f64"
        return None

    def share_outside(self, found, expected, kind):
        """the share of the elements that are further off than the coarsest type of the case explains"""
        torch = self.torch
        if not kind.is_floating_point:
            return (found.to(torch.float32) - expected.to(torch.float32)).abs().gt(1).double().mean().item()
        rounded = (expected.to(torch.float32) if kind.itemsize == 1 else expected).to(kind)
        rounded, found = (tensor if kind == torch.float64 else tensor.to(torch.float32).to(torch.float64) for tensor in (rounded, found))
        # Eager programs round to 16 bits in between. Inputs of 8 bits are converted to f32 first.
        types = [item.dtype for item in self.case.inputs if item.dtype in ("f64", "f32", "f16", "bf16")]
        tolerance = max(TOLERANCE[name] for name in [*types, next(name for name in TOLERANCE if torch_text.dtype(name) == kind)])
        finite = expected[expected.isfinite()]
        scale = (finite * finite).mean().sqrt() if finite.numel() else torch.zeros((), device=expected.device)
        close = (rounded == found) | (rounded.isnan() & found.isnan())
        close |= (rounded - found).abs() <= tolerance * torch.maximum(rounded.abs(), scale)
        return (~close).double().mean().item()


# ---------------------------------------------------------------------------------------------- compiling ahead
def start_worker(folder, lock):
    """compiles in this process only, and measures nothing while another process does"""
    # The parent stops its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    c.prepare_inductor(folder)
    c.unlimited_recompiles()
    from torch._inductor.runtime import benchmarking

    global LOCK
    LOCK = Nested(lock)
    measure = benchmarking.benchmarker.benchmark_gpu

    def measure_alone(*args, **options):
        with LOCK:
            return measure(*args, **options)

    benchmarking.benchmarker.benchmark_gpu = measure_alone


class Nested:
    """a lock between processes that its holder may take again"""

    def __init__(self, lock):
        self.lock, self.depth = lock, 0

    def __enter__(self):
        if self.depth == 0:
            self.lock.acquire()
        self.depth += 1

    def __exit__(self, *_):
        self.depth -= 1
        if self.depth == 0:
            self.lock.release()


LOCK = None


def prepare(case):
    """compiles and tunes a case and checks its results: the range of its data, and what is wrong"""
    import torch

    try:
        side = Side(case, window_count=1)
        with LOCK:
            side.allocate()
            expected = side.choose_range()
            torch.cuda.synchronize()
        launch = side.compiled()
        launch(0)
        with LOCK:
            wrong = side.difference(expected)
        return {"range": side.range, "wrong": wrong}
    except Exception as error:
        return {"error": f"torch.compile: {type(error).__name__}: {str(error).strip()[:400]}"}
    finally:
        side = launch = expected = None
        torch.cuda.empty_cache()


class Compilers:
    """Processes that compile the cases of a batch while nothing is timed."""

    def __init__(self, folder, count):
        self.folder, self.count, self.pool = folder, count, None

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.pool = context.Pool(self.count, start_worker, (self.folder, context.Lock()))

    def prepare(self, cases):
        """what `prepare` returns for each case"""
        if self.pool is None:
            self.start()
        waiting = [self.pool.apply_async(prepare, (case,)) for case in cases]
        end, found = time.monotonic() + TIMEOUT, []
        for answer in waiting:
            try:
                found.append(answer.get(max(0.1, end - time.monotonic())))
            except multiprocessing.TimeoutError:
                found.append({"error": f"torch.compile: not done after {TIMEOUT:.0f} s"})
        if any("not done" in answer.get("error", "") for answer in found):
            self.stop()
        return found

    def stop(self):
        if self.pool is not None:
            self.pool.terminate()
            self.pool.join()
        self.pool = None
