# SPDX-License-Identifier: GPL-2.0
"""The parts of tools/bench: what is measured, how, and what is made of it.

`guest` runs in the guests and measures; `report` runs in the build root and
prints. Between them is one JSON file, whose form Documentation/speed.rst gives.
"""
