# SPDX-License-Identifier: GPL-2.0
"""How Sphinx reads Documentation/."""

project = "sib"
author = "the sib authors"
master_doc = "index"
html_theme = "sphinx_rtd_theme"
nitpicky = True
