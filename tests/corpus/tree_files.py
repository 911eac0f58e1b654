# SPDX-License-Identifier: Apache-2.0
"""The decision tree with all its stages as one JSON object, which the loader takes as a tree in one file."""
import json, os


def read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def load(templates):
    tree = read(os.path.join(templates, "tree.json"))
    tree["nodes"] = tree.get("nodes", [])
    for name in tree.pop("stages", []):
        stage = read(os.path.join(templates, name))
        tree["terms"].update(stage.get("terms", {}))
        tree["nodes"] += stage["nodes"]
        for key in ("evidence", "decides"):
            if key in stage:
                tree[key] = stage[key]
    return tree
