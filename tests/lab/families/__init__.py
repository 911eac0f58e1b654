# SPDX-License-Identifier: Apache-2.0
"""One file a family. `unseen_*` is for the end: nothing is tuned on it."""
from families import designs, fragments, leaks, neighbours, serving, training, unseen_abbey, unseen_atlas, unseen_bench, unseen_clinic, unseen_engines, unseen_equal, unseen_ferry, unseen_field, unseen_fleet, unseen_forge, unseen_harbour, unseen_isle, unseen_kiln, unseen_loft, unseen_loops, unseen_mill, unseen_orchard, unseen_press, unseen_programs, unseen_quarry, unseen_reef, unseen_services, unseen_studio, unseen_theatre, unseen_vault, vision  # noqa: F401
