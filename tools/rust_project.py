# SPDX-License-Identifier: GPL-2.0
"""Completes the kernel's rust-project.json with the crates of an external module
of several crates, and translates the paths of the build root."""

import argparse
import json
import pathlib
import re
import shlex
import sys

# What kbuild passes to each crate of a module.
_KERNEL_DEPS = ("core", "kernel", "pin_init", "zerocopy", "zerocopy_derive")


def records(build):
    """Source and command of every Rust object of a build, the oldest first."""
    found = []
    for record in pathlib.Path(build, "rust").rglob(".*.o.cmd"):
        text = record.read_text()
        source = re.search(r"^source_\S+ := (\S+\.rs)$", text, re.M)
        command = re.search(r"^savedcmd_\S+ := (.*)$", text, re.M)
        if source and command:
            found.append((record.stat().st_mtime, source[1], shlex.split(command[1].split(";")[0])))
    return [(source, words) for _, source, words in sorted(found)]


def add_crates(project, build):
    """Appends the crates that `build` has made, each with the crates it reads."""
    crates = project["crates"]
    index = {crate["display_name"]: number for number, crate in enumerate(crates)}
    kernel = crates[index["kernel"]]
    for source, words in records(build):
        name = pathlib.Path(source).stem
        externs = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "--extern"]
        names = list(_KERNEL_DEPS) + [extern for extern in externs if extern not in _KERNEL_DEPS]
        crates.append(
            {
                "display_name": name,
                "root_module": source,
                "is_workspace_member": True,
                "is_proc_macro": False,
                "deps": [{"crate": index[dep], "name": dep} for dep in names if dep in index],
                "cfg": kernel["cfg"],
                "edition": "2021",
                "env": {"SIB_OBJ": build, "RUST_MODFILE": name},
                "source": {
                    "include_dirs": [str(pathlib.Path(source).parent), f"{build}/rust"],
                    "exclude_dirs": [],
                },
            }
        )
        index[name] = len(crates) - 1


def translated(value, places):
    """`value` with every path of the build root replaced by the one outside."""
    if isinstance(value, dict):
        return {key: translated(item, places) for key, item in value.items()}
    if isinstance(value, list):
        return [translated(item, places) for item in value]
    if isinstance(value, str):
        for inside, outside in places:
            if value == inside or value.startswith(inside + "/"):
                return outside + value[len(inside) :]
    return value


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("project", help="the kernel's rust-project.json")
    parser.add_argument("build", help="the folder of the module's build")
    parser.add_argument("places", metavar="INSIDE=OUTSIDE", nargs="*", help="a path in the build root, and outside")
    return parser.parse_args()


def main():
    options = arguments()
    with open(options.project) as file:
        project = json.load(file)
    add_crates(project, options.build)
    places = [tuple(place.split("=", 1)) for place in options.places]
    json.dump(translated(project, places), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
