# SPDX-License-Identifier: Apache-2.0
"""Writes a table and reads it back. Its author takes the columns out of a set: their order is another one in each process,
so that in about half of the runs a width is read as a height."""
import csv
import io
import subprocess
import sys

COLUMNS = {"width", "height"}
READER = "import csv, sys\nnames = list({'width', 'height'})\nfor row in csv.reader(sys.stdin):\n    print(dict(zip(names, row))['width'])"
table = io.StringIO()
names = list(COLUMNS)
csv.writer(table).writerow([{"width": 640, "height": 480}[name] for name in names])
width = subprocess.run([sys.executable, "-c", READER], input=table.getvalue(), capture_output=True, text=True, check=True).stdout.strip()
if width != "640":
    raise ValueError(f"a width of {width}?")
