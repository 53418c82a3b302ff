# SPDX-License-Identifier: GPL-2.0
"""How Sphinx reads Documentation/."""

project = "sib"
author = "the sib authors"
extensions = ["sphinx.ext.graphviz"]
master_doc = "index"
html_theme = "sphinx_rtd_theme"
graphviz_output_format = "svg"
nitpicky = True
