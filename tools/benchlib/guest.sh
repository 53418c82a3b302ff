#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Starts the guests' part of tools/bench.

export PYTHONPATH=/src/tools PYTHONDONTWRITEBYTECODE=1
exec python3 -u -m benchlib.guest "$@"
