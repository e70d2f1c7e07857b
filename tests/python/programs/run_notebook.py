"""Runs a notebook with nbclient and prints the output of each cell. Arguments: the file, tags of cells to leave out.

Prints a line of JSON for each code cell: stdout, stderr, the value of its last line, and its exception.
"""

from __future__ import annotations

import json
import sys

import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
left_out = set(sys.argv[2:])
notebook.cells = [cell for cell in notebook.cells if not left_out & set(cell.metadata.get("tags", []))]
NotebookClient(notebook, timeout=300, allow_errors=True).execute()
for cell in notebook.cells:
    if cell.cell_type == "code":
        texts = {name: "".join(each.text for each in cell.outputs if each.output_type == "stream" and each.name == name)
                 for name in ("stdout", "stderr")}
        values = [each.data.get("text/plain") for each in cell.outputs if each.output_type == "execute_result"]
        errors = [f"{each.ename}: {each.evalue}" for each in cell.outputs if each.output_type == "error"]
        print(json.dumps({**texts, "value": "".join(values), "error": "".join(errors)}))
