"""The contestants: each provides `launch(window)` for an operation, a type and a size, in each configuration to tune.

Every operand is a pool of W = max(2, 512 MiB / S) windows of S bytes; launch i uses window i % W, so that no line is still
cached when it is used again. K launches (a multiple of W, about 2 ms) are captured into one CUDA graph, which excludes the cost
of launching from Python; events bracket a replay; the time of one launch is the median of the replays divided by K.
"""
import math
import os
import statistics
import subprocess
import sys

MIB = 1 << 20
POOL_MIN = 512 * MIB
SIZES = [1 * MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB, 2048 * MIB]
OPS = ["copy", "add_const", "triad", "exp", "log", "erf"]
DTYPES = ["f32", "bf16", "f16"]
ITEM = {"f32": 4, "bf16": 2, "f16": 2}
PEERS = ["cub", "memcpy", "torch_eager", "torch_compile", "triton", "cupy"]
ALPHA = 0.75
SHIFT = 42.0
REPLAYS = 15

# torch.compile's mode max-autotune with static shapes, without its CUDA graphs, which would copy the operands.
MAX_AUTOTUNE = {"max_autotune": True, "max_autotune_pointwise": True, "coordinate_descent_tuning": True, "triton.cudagraphs": False}

# Configurations that a Triton user would try: elements per block, warps. At most eight vectors of 16 bytes per thread.
TRITON_CONFIGS = [
    (256, 1), (256, 2), (512, 1), (512, 2), (512, 4), (1024, 2), (1024, 4), (1024, 8), (2048, 4), (2048, 8), (2048, 16),
    (4096, 4), (4096, 8), (4096, 16), (8192, 8), (8192, 16), (8192, 32), (16384, 16),
]


def log(*words):
    print(*words, file=sys.stderr, flush=True)


def operands(op):
    """how many tensors an operation reads and writes"""
    return 3 if op == "triad" else 2


def windows(nbytes):
    return max(2, math.ceil(POOL_MIN / nbytes))


def torch_dtype(name):
    import torch

    return {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[name]


class Pools:
    """Three pools of twice the largest size, shared by all contestants of this process."""

    def __init__(self, largest=2048 * MIB):
        import torch

        self.torch = torch
        self.bytes = 2 * max(largest, POOL_MIN // 2)
        self.stream = torch.cuda.Stream()
        self.a, self.b, self.y = (torch.empty(self.bytes, dtype=torch.uint8, device="cuda") for _ in range(3))
        self.filled = None

    def release(self):
        self.a = self.b = self.y = None
        self.torch.cuda.empty_cache()

    def fill(self, dtype, positive):
        if self.filled == (dtype, positive):
            return
        lo, hi = (0.01, 8.0) if positive else (-3.0, 3.0)
        with self.torch.cuda.stream(self.stream):
            for pool in (self.a, self.b):
                step = 1 << 30
                for start in range(0, self.bytes, step):
                    pool[start : start + step].view(torch_dtype(dtype)).uniform_(lo, hi)
            self.y.zero_()
        self.stream.synchronize()
        self.filled = (dtype, positive)

    def views(self, dtype, nbytes):
        """one tensor per window over the pools' storage, which the compiler doesn't see as views"""
        torch = self.torch
        n = nbytes // ITEM[dtype]

        def tensor_of(pool, window):
            tensor = torch.empty(0, dtype=torch_dtype(dtype), device="cuda")
            return tensor.set_(pool.untyped_storage(), window * n, (n,), (1,))

        return [[tensor_of(pool, window) for window in range(windows(nbytes))] for pool in (self.a, self.b, self.y)]


class Launches:
    """Launches over all windows, several times if that takes less than 2 ms, captured into a CUDA graph or made one by one."""

    def __init__(self, stream, launch, window_count, guess_us, graph=True):
        import torch

        self.torch, self.stream, self.launch, self.windows = torch, stream, launch, window_count
        self.count = window_count * max(1, math.ceil(2000.0 / (max(2.0, guess_us) * window_count)))
        self.graph = None
        with torch.cuda.stream(stream):
            launch(0)
            launch(1 % window_count)
            stream.synchronize()
            if graph:
                self.graph = torch.cuda.CUDAGraph()
                self.graph.capture_begin(capture_error_mode="relaxed")
                try:
                    self.each()
                finally:
                    self.graph.capture_end()

    def each(self):
        for i in range(self.count):
            self.launch(i % self.windows)

    def samples(self, replays, warm_up=2):
        """microseconds of one launch, from each replay"""
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        run = self.each if self.graph is None else self.graph.replay
        found = []
        with self.torch.cuda.stream(self.stream):
            for _ in range(warm_up):
                run()
            self.stream.synchronize()
            for _ in range(replays):
                begin.record(self.stream)
                run()
                end.record(self.stream)
                end.synchronize()
                found.append(begin.elapsed_time(end) * 1e3 / self.count)
        return found


def time_it(stream, nbytes, tensors, launch, graph=True, cold=True, replays=REPLAYS):
    """median microseconds of one launch(window)"""
    launches = Launches(stream, launch, windows(nbytes) if cold else 1, nbytes * tensors / 4.0e6, graph)
    return statistics.median(launches.samples(replays))


# ------------------------------------------------------------------------------------------------ PyTorch
def eager(op):
    import torch

    def f(a, b, y):
        if op == "copy":
            y.copy_(a)
        elif op == "add_const":
            torch.add(a, SHIFT, out=y)
        elif op == "triad":
            torch.add(a, b, alpha=ALPHA, out=y)
        else:
            getattr(torch, op)(a, out=y)

    return f


def compiled(op):
    """torch.compile with max-autotune and static shapes, without its CUDA graphs, which would copy the operands"""
    import torch

    if op == "triad":
        return torch.compile(lambda a, b, y: y.copy_(a + ALPHA * b), dynamic=False, fullgraph=True, options=MAX_AUTOTUNE)
    bodies = {
        "copy": lambda a, y: y.copy_(a),
        "add_const": lambda a, y: y.copy_(a + SHIFT),
        "exp": lambda a, y: y.copy_(torch.exp(a)),
        "log": lambda a, y: y.copy_(torch.log(a)),
        "erf": lambda a, y: y.copy_(torch.erf(a)),
    }
    f = torch.compile(bodies[op], dynamic=False, fullgraph=True, options=MAX_AUTOTUNE)
    return lambda a, b, y: f(a, y)


def prepare_inductor(folder):
    """use caches that later stages find again, and compile in as many processes as there are cores (at most 16)"""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(folder, "inductor"))
    os.environ.setdefault("TRITON_CACHE_DIR", os.path.join(folder, "triton"))
    os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "1")
    os.environ.setdefault("TORCHINDUCTOR_AUTOGRAD_CACHE", "1")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(min(16, os.cpu_count() or 1)))


def unlimited_recompiles():
    import torch

    for name in ("cache_size_limit", "recompile_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 4096)
    for name in ("accumulated_cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 65536)
    torch.set_grad_enabled(False)


# ------------------------------------------------------------------------------------------------ Triton
try:
    import triton
    import triton.language as tl

    @triton.jit
    def _unary(x_ptr, y_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
        off = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = off < n
        v = tl.load(x_ptr + off, mask=mask)
        if OP == 0:
            r = v
        elif OP == 1:
            r = v.to(tl.float32) + 42.0
        elif OP == 2:
            r = tl.exp(v.to(tl.float32))
        elif OP == 3:
            r = tl.log(v.to(tl.float32))
        else:
            r = tl.erf(v.to(tl.float32))
        tl.store(y_ptr + off, r.to(y_ptr.dtype.element_ty), mask=mask)

    @triton.jit
    def _triad(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
        off = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = off < n
        a = tl.load(a_ptr + off, mask=mask).to(tl.float32)
        b = tl.load(b_ptr + off, mask=mask).to(tl.float32)
        tl.store(y_ptr + off, (a + 0.75 * b).to(y_ptr.dtype.element_ty), mask=mask)

except Exception as error:  # without Triton, there is one contestant less
    triton = None
    log("triton is not available:", error)

TRITON_OP = {"copy": 0, "add_const": 1, "exp": 2, "log": 3, "erf": 4}


def tritons(op, config):
    block, warps = config

    def f(a, b, y):
        n = y.numel()
        grid = (triton.cdiv(n, block),)
        if op == "triad":
            _triad[grid](a, b, y, n, BLOCK=block, num_warps=warps)
        else:
            _unary[grid](a, y, n, OP=TRITON_OP[op], BLOCK=block, num_warps=warps)

    return f


def warm_triton(jobs):
    """compiles (op, dtype, config) jobs in a separate process, into the shared cache"""
    import torch

    for op, dtype, config in jobs:
        x = torch.zeros(1 << 16, dtype=torch_dtype(dtype), device="cuda")
        tritons(op, config)(x, x, torch.empty_like(x))
    torch.cuda.synchronize()
    return len(jobs)


# ------------------------------------------------------------------------------------------------ CuPy
class Cupy:
    BODY = {
        "copy": "y = x",
        "add_const": "y = (T)((float)x + 42.0f)",
        "exp": "y = (T)expf((float)x)",
        "log": "y = (T)logf((float)x)",
        "erf": "y = (T)erff((float)x)",
    }

    def __init__(self, pools):
        import cupy

        self.cupy = cupy
        try:
            self.stream = cupy.cuda.ExternalStream(pools.stream.cuda_stream)
        except Exception:  # a later CuPy without it
            self.stream = cupy.cuda.Stream.from_external(pools.stream)
        self.pools = []
        for pool in (pools.a, pools.b, pools.y):
            memory = cupy.cuda.UnownedMemory(pool.data_ptr(), pool.numel(), pool)
            pointer = cupy.cuda.MemoryPointer(memory, 0)
            self.pools.append(cupy.ndarray((pool.numel(),), dtype=cupy.uint8, memptr=pointer))
        self.kernels = {op: cupy.ElementwiseKernel("T x", "T y", body, "ew_" + op) for op, body in self.BODY.items()}
        triad = "y = (T)((float)a + 0.75f * (float)b)"
        self.kernels["triad"] = cupy.ElementwiseKernel("T a, T b", "T y", triad, "ew_triad")

    def dtype(self, name):
        if name != "bf16":
            return {"f32": self.cupy.float32, "f16": self.cupy.float16}[name]
        import ml_dtypes  # CuPy 14 takes bfloat16 through it
        import numpy

        return numpy.dtype(ml_dtypes.bfloat16)

    def launcher(self, op, dtype, nbytes):
        cupy_dtype = self.dtype(dtype)
        a, b, y = ([p[i * nbytes : (i + 1) * nbytes].view(cupy_dtype) for i in range(windows(nbytes))] for p in self.pools)
        kernel = self.kernels[op]

        def launch(window):
            with self.stream:
                if op == "triad":
                    kernel(a[window], b[window], y[window])
                else:
                    kernel(a[window], y[window])

        return launch

    def memcpy(self, pools, nbytes):
        runtime = self.cupy.cuda.runtime
        a, y = pools.a.data_ptr(), pools.y.data_ptr()

        def launch(window):
            runtime.memcpyAsync(y + window * nbytes, a + window * nbytes, nbytes, 3, pools.stream.cuda_stream)

        return launch


# ------------------------------------------------------------------------------------------------ CUB
class Cub:
    """cub.cu as a process that answers each request with one line"""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.ask("version")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer or answer.startswith("error"):
            raise RuntimeError(f"{line}: {answer or 'the process ended'}")
        return answer

    def time(self, op, dtype, nbytes):
        return float(self.ask(f"time {op} {dtype} {nbytes}"))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ------------------------------------------------------------------------------------------------ all of them
class Contestants:
    """Times any contestant with any configuration on any cell; raises if the machine lacks it."""

    def __init__(self, folder, largest=2048 * MIB):
        prepare_inductor(folder)
        import torch

        self.torch = torch
        unlimited_recompiles()
        self.pools = Pools(largest)
        self.folder = folder
        self._cupy = None
        self._cubs = {}
        self._compiled = {}
        self._taken = None

    @property
    def cupy(self):
        if self._cupy is None:
            self._cupy = Cupy(self.pools)
        return self._cupy

    def cub(self, config="default"):
        if config not in self._cubs:
            self._cubs[config] = Cub(self.cub_path(config))
        return self._cubs[config]

    def cub_path(self, config):
        """the program with the toolkit's CUB, or with a newer one"""
        return os.path.join(self.folder, "cub" if config == "default" else f"cub-{config}")

    def move(self, number):
        """Moves every program's arrays in memory, because their addresses change large bandwidths by 0.3 %: frees and reallocates
        them, and restarts programs, with `number` GiB occupied."""
        self.close()
        self._cubs, self._cupy = {}, None
        self._taken = None
        self.pools.release()
        self._taken = self.torch.empty(number << 30, dtype=self.torch.uint8, device="cuda")
        self.pools = Pools(self.pools.bytes // 2)

    def close(self):
        for cub in self._cubs.values():
            cub.close()

    def configs(self, peer, op):
        """the configurations of a peer; empty if it lacks the operation"""
        if peer == "memcpy":
            return ["graph", "stream"] if op == "copy" else []
        if peer == "cub":
            return [config for config in ("default", "newer") if os.path.exists(self.cub_path(config))]
        if peer == "triton":
            return [f"{block}/{warps}" for block, warps in TRITON_CONFIGS] if triton else []
        return ["max-autotune"] if peer == "torch_compile" else ["default"]

    def launch(self, peer, config, op, dtype, nbytes):
        if peer == "memcpy":
            return self.cupy.memcpy(self.pools, nbytes)
        if peer == "cupy":
            return self.cupy.launcher(op, dtype, nbytes)
        a, b, y = self.pools.views(dtype, nbytes)
        if peer == "torch_eager":
            f = eager(op)
        elif peer == "torch_compile":
            # One function per cell: in a shared function, dynamo would check a list of guards that grows with every size.
            key = (op, dtype, nbytes)
            f = self._compiled.setdefault(key, None) or compiled(op)
            self._compiled[key] = f
        else:
            f = tritons(op, tuple(int(part) for part in config.split("/")))
        return lambda window: f(a[window], b[window], y[window])

    def time(self, peer, config, op, dtype, nbytes):
        """microseconds of one launch"""
        if peer == "cub":
            return self.cub(config).time(op, dtype, nbytes)
        self.pools.fill(dtype, op == "log")
        launch = self.launch(peer, config, op, dtype, nbytes)
        return time_it(self.pools.stream, nbytes, operands(op), launch, graph=config != "stream")
