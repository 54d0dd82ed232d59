"""Names of festina in the text become links to the reference; unknown ones are warnings."""

import pkgutil
import re

from docutils import nodes
from reference import HOMES
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

logger = logging.getLogger(__name__)


class Link(SphinxPostTransform):
    """Link `festina.theory.linear.modes` and, on pages of its module, `modes` alone."""

    default_priority = 5

    def run(self):
        here = self.env.docname
        module = self.env.metadata[here].get("module", "")
        for node in list(self.document.findall(nodes.literal)):
            if isinstance(node.parent, nodes.reference) or node.get("classes"):
                continue
            name = node.astext().partition("(")[0]
            if not (self.link(node, name) or (module and self.link(node, f"{module}.{name}"))):
                self.check(node, name)

    def link(self, node, name):
        """Replace a literal by a link if `name` has an entry in the reference, on another page."""
        target = self.env.get_domain("py").objects.get(HOMES.get(name, name))
        if target is None:
            return False
        here = self.env.docname
        if target.docname != here:
            link = make_refnode(
                self.app.builder, here, target.docname, target.node_id, node.deepcopy(), name
            )
            node.replace_self(link)
        return True

    def check(self, node, name):
        if re.fullmatch(r"festina(\.\w+)+", name) and not exists(name):
            logger.warning("festina has no name %s", name, location=node)


def exists(name):
    if name.endswith((".py", ".toml", ".sh", ".mplstyle")):
        return True
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def setup(app):
    app.add_post_transform(Link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
