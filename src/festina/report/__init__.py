"""Write a page of saved runs: claims, figures, parameters and the commands that make them again.

- `write_report`: one HTML file that needs no other file and no network.
- `read_sections`: the contents of that page, one section for each run.
"""

from ._compare import Change as Change
from ._compare import changes as changes
from ._page import write_report as write_report
from ._section import Section as Section
from ._section import read_sections as read_sections
