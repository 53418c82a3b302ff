# SPDX-License-Identifier: GPL-2.0
"""What in a kernel log is the report of a bug."""

import re

# Reports start a line of the log, after the time and perhaps the caller.
_START = r"^(?:\[[ \d.]+\](?:\[[ TC\d]+\])? )?"
_REPORTS = (
    r"BUG:",
    r"\[ BUG:",
    r"WARNING:",
    r"Oops",
    r"Kernel panic",
    r"kernel BUG at",
    r"------------\[ cut here \]",
    r"general protection fault",
    r"unable to handle",
    r"divide error:",
    r"invalid opcode:",
    r"int3:",
    r"stack segment:",
    r"double fault:",
    r"rcu: INFO: .*(?:detected|self-detected) (?:expedited )?stall",
    r"rcu: INFO: .*stall",
    r"INFO: task .* blocked for more than",
    r"INFO: possible recursive locking",
    r"INFO: trying to register non-static key",
    r"watchdog: BUG",
    r"DEBUG_LOCKS_WARN_ON",
    r"KASAN:",
    r"UBSAN:",
    r"ODEBUG:",
    r"refcount_t:",
    r"list_(?:add|del) corruption",
    r"rust_kernel: panicked",
    r"kmemleak: \d+ new suspected memory leaks",
    r"kmemleak: unreferenced object",
)
_REPORT = re.compile(_START + "(?:" + "|".join(_REPORTS) + ")")

_CONTEXT = 60


def begins(path):
    """Whether there is a log at `path`, with the first line of a kernel."""
    try:
        with open(path, errors="replace") as log:
            return any("Linux version " in line for line in log)
    except FileNotFoundError:
        return False


def report(path):
    """The lines of the first report in the log at `path`, or None."""
    try:
        with open(path, errors="replace") as log:
            lines = log.read().replace("\r", "").split("\n")
    except FileNotFoundError:
        return None
    for number, line in enumerate(lines):
        if _REPORT.match(line):
            return lines[number : number + _CONTEXT]
    return None
