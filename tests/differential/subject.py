"""The program under test, behind a pipe."""

from __future__ import annotations

import json
import os
import selectors
import subprocess

import numpy as np

from cases import Case, Tensor
from dtypes import DType
from expression import Kernel

TIMEOUT = 120.0
"""Seconds that one call may take, including the compilation of its kernel."""


class SubjectDied(Exception):
    """The subject ended or hung."""


class Subject:
    """A process that evaluates expressions; started when first needed, and again after it died."""

    def __init__(self, program: str, device: str, place: int):
        self.command = [program, device, str(place)]
        self.process: subprocess.Popen | None = None

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def run(self, kernel: Kernel, case: Case) -> list[np.ndarray] | str:
        """The outputs' memory after the call, or the error message of the subject."""
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        try:
            self._send(request(kernel, case))
            answer = json.loads(self._line())
            if "error" in answer:
                return answer["error"]
            results = [self._bytes(size) for size in answer["outputs"]]
        except (BrokenPipeError, EOFError, TimeoutError, json.JSONDecodeError) as error:
            code = self.process.poll()
            self.close()
            raise SubjectDied(f"{type(error).__name__} {error}, exit status {code}") from error
        return [np.frombuffer(result, output.dtype.storage) for result, output in zip(results, kernel.outputs, strict=True)]

    def _send(self, message: bytes) -> None:
        view = memoryview(message)
        while view:
            view = view[self.process.stdin.write(view) :]

    def _read(self, most: int) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(TIMEOUT):
                raise TimeoutError(f"no answer within {TIMEOUT:.0f} s")
        read = os.read(self.process.stdout.fileno(), most)
        if not read:
            raise EOFError("it ended")
        return read

    def _line(self) -> bytes:
        self.rest = bytearray()
        while b"\n" not in self.rest:
            self.rest += self._read(1 << 20)
        line, _, rest = bytes(self.rest).partition(b"\n")
        self.rest = bytearray(rest)
        return line

    def _bytes(self, size: int) -> bytes:
        while len(self.rest) < size:
            self.rest += self._read(1 << 20)
        taken, self.rest = bytes(self.rest[:size]), self.rest[size:]
        return taken


def bits_of(dtype: DType, scalar: np.ndarray) -> int:
    return int.from_bytes(scalar.tobytes(), "little")


def request(kernel: Kernel, case: Case) -> bytes:
    payload = []

    def described(tensor: Tensor | None, dtype: DType, like: Tensor | None) -> dict:
        layout = (tensor or like).layout
        memory = tensor.memory.tobytes() if tensor else b""
        payload.append(memory)
        return {
            "dtype": dtype.name,
            "shape": layout.shape,
            "strides": layout.strides,
            "offset": layout.offset,
            "bytes": len(memory),
        }

    inputs = [described(tensor, tensor.dtype, None) for tensor in case.inputs]
    outputs = [
        described(tensor, output.dtype, None if output.in_place is None else case.inputs[output.in_place])
        for tensor, output in zip(case.outputs, kernel.outputs, strict=True)
    ]
    header = {
        "text": kernel.text,
        "scalars": [bits_of(d, s) for d, s in zip(kernel.scalars, case.scalars, strict=True)],
        "inputs": inputs,
        "outputs": outputs,
        "isa": case.isa,
        "nontemporal": case.nontemporal,
    }
    return json.dumps(header).encode() + b"\n" + b"".join(payload)
