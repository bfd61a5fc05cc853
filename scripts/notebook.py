"""Runs the code cells of a notebook in order and stores what they print and return, without Jupyter.

    PYTHONPATH=$PWD/target/python python3 scripts/notebook.py examples/python/05_notebook.ipynb
"""

import ast
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile


def run_cell(source: str, names: dict) -> list[dict]:
    """Runs a cell; returns its outputs as a notebook has them: the printed text, and the value of a last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)  # noqa: S102
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append({"data": data, "metadata": {}, "output_type": "execute_result"})
    return outputs


def main(path: pathlib.Path) -> None:
    notebook = json.loads(path.read_text())
    names: dict = {"__name__": "__main__"}
    # What the cells write stays there.
    path = path.absolute()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run_cells(notebook, names)
        os.chdir(path.parent)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def run_cells(notebook: dict, names: dict) -> None:
    codes = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    for number, cell in enumerate(codes, 1):
        cell["execution_count"] = number
        cell["outputs"] = run_cell("".join(cell["source"]), names)
        for output in cell["outputs"]:
            if output["output_type"] == "execute_result":
                output["execution_count"] = number


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
