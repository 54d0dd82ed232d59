"""Sphinx settings of festina's site; `make docs` builds it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import festina

project, author = "festina", "the authors of festina"
copyright = author
version = release = festina.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_design",
    "sphinx_copybutton",
    "docstrings",
    "formulae",
    "names",
    "reference",
    "gallery",
]
exclude_patterns = ["_build", "_ext", "_static", "requirements.txt"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_block"]
myst_heading_anchors = 3

nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", ".*")
]  # types in signatures; names in text are checked by `names`
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
add_module_names = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "festina"
html_static_path = ["_static"]
html_css_files = ["katex/katex.min.css", "festina.css"]
html_math_renderer = "katex"
html_show_sourcelink = False
html_show_search_summary = False  # browsers forbid pages from disk to read other files
html_context = {"default_mode": "auto"}
html_copy_source = False
html_theme_options = {
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "navigation_depth": 2,
    "footer_start": [],
    "footer_end": [],
    "search_as_you_type": True,
}
html_sidebars = {"index": [], "start": [], "gallery": []}
