"""Sphinx configuration: plain Markdown, a warning is an error."""

project = "Terrazzo"
copyright = "the Terrazzo contributors"  # noqa: A001 - the name Sphinx asks for
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Terrazzo"
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nitpicky = True
