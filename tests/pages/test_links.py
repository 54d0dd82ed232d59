"""Test that links and pictures of the site that `make docs` builds exist."""

import html.parser
import urllib.parse
from functools import cache

import pytest

from built_site import BUILT, PAGES, SITE

pytestmark = BUILT


class Links(html.parser.HTMLParser):
    """Identifiers and links of a page."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links = {""}, []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        self.ids |= {known[name] for name in ("id", "name") if known.get(name)}
        self.links += [known[name] for name in ("href", "src") if known.get(name)]


links_of = cache(Links)


@pytest.mark.parametrize("name", PAGES)
def test_links_and_pictures_exist(name):
    missing = []
    for link in links_of(SITE / name).links:
        address = urllib.parse.urlsplit(link)
        if address.scheme or address.netloc:
            continue
        target = (SITE / name).parent / urllib.parse.unquote(address.path)
        target = target.resolve() if address.path else SITE / name
        is_page = target.suffix == ".html" and target.is_file()
        fragment = urllib.parse.unquote(address.fragment)
        if not target.is_file() or (is_page and fragment not in links_of(target).ids):
            missing.append(link)
    assert missing == []
