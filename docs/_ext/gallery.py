"""The gallery: a card and a page for every experiment, from the registry and one run of each."""

import importlib
import json
from pathlib import Path

from reference import toctree, write

from festina.experiments import experiment_names, load_experiment
from festina.experiments._registry import entries

SOURCES = {  # title, and page of the theory
    "linear": ("Deep linear networks", "linear"),
    "race": ("Gated networks and the neural race", "gated"),
    "haste": ("ReLU networks as gated linear ones", "haste"),
    "coding": ("Coding schemes", "coding"),
    "saddles": ("Saddle-to-saddle dynamics", "saddles"),
}


def stem(name):
    return name.replace("/", "-")


def card(entry):
    return (
        f":::{{grid-item-card}} {entry.name}\n:img-top: /gallery/{stem(entry.name)}.png\n"
        f":link: /experiments/{stem(entry.name)}\n:link-type: doc\n\n{entry.shows}\n:::\n"
    )


def overview():
    parts = [
        "---\nhtml_theme.sidebar_secondary.remove: true\n---\n",
        "# Gallery\n\nEach experiment tests statements of a source: it predicts, trains, compares "
        "and draws. Choose a card for its claims, its parameters and the command that makes the "
        "figure.\n",
    ]
    for source, (title, _) in SOURCES.items():
        chosen = [entry for entry in entries() if entry.name.startswith(f"{source}/")]
        cards = "\n".join(map(card, chosen))
        parts.append(f"## {title}\n\n::::{{grid}} 1 2 3 3\n:gutter: 3\n\n{cards}\n::::\n")
    tree = [f"experiments/{stem(name)}" for name in experiment_names()]
    return "\n".join(parts) + "\n" + toctree(tree, "hidden:")


def page(entry, judged):
    """Return the page of one experiment: figure, words, commands, claims, parameters."""
    experiment = load_experiment(entry.name)
    about = experiment_doc(entry)
    title, theory = SOURCES[entry.name.partition("/")[0]]
    return "\n".join(
        [
            f"# {entry.name}\n",
            f"{entry.shows[0].upper()}{entry.shows[1:]}. *Source: {entry.source}.*\n",
            f"![{entry.shows}](/gallery/{stem(entry.name)}.png)\n",
            "The figure and the numbers on this page come from this command:\n\n"
            f"```sh\nfestina run {entry.name}{' --quick' * bool(experiment.quick)}\n```\n",
            "For a slide, redraw the saved run in another size:\n\n"
            f"```sh\nfestina show runs/{entry.name}/001 --size 8x4.5 --dpi 400 --format png "
            "--out slides\n```\n",
            f"In Python, with the default parameters:\n\n```py\n{in_python(entry)}```\n",
            "## What it shows\n",
            about,
            f"\nAssumptions, and where the theory stops holding: [{title}](../theory/{theory}.md). "
            f"`festina cite {entry.name}` prints the references.\n",
            "\n## Claims\n",
            claims(judged),
            "\n## Parameters\n",
            parameters(experiment),
        ]
    )


def experiment_doc(entry):
    return importlib.import_module(entry.module).__doc__ or ""


def in_python(entry):
    return (
        "from festina.experiments import load_experiment\n\n"
        f'experiment = load_experiment("{entry.name}")\n'
        "run = experiment.run(experiment.parameters())\n"
        "experiment.draw(run)\n"
    )


def claims(listed):
    rows = [
        "| claim | predicted | measured | tolerance | verdict |",
        "| --- | --- | --- | --- | --- |",
    ]
    for claim in listed:
        words = f"{claim['words']} ({claim['at']})" if claim["at"] else claim["words"]
        remark = f"<br>*{cell(claim['remark'])}*" if claim["remark"] else ""
        rows.append(
            f"| **{claim['id']}**<br>{cell(words)}{remark} | {cell(claim['predicted'])} | "
            f"{cell(claim['measured'])} | {cell(claim['tolerance'])} | {claim['verdict']} |"
        )
    return "\n".join(rows)


def cell(value):
    return str(value).replace("|", r"\|").replace("\n", " ")


def parameters(experiment):
    rows = ["| parameter | default | meaning |", "| --- | --- | --- |"]
    meanings = experiment.parameters.docstrings()
    for name, field in experiment.parameters.model_fields.items():
        meaning = " ".join(meanings.get(name, "").split())
        rows.append(f"| `{name}` | `{cell(field.default)}` | {cell(meaning)} |")
    return "\n".join(rows)


def pages(app):
    source = Path(app.srcdir)
    write(source / "gallery.md", overview())
    for entry in entries():
        name = stem(entry.name)
        judged = json.loads((source / "gallery" / f"{name}.json").read_text(encoding="utf-8"))
        write(source / "experiments" / f"{name}.md", page(entry, judged))


def setup(app):
    app.connect("builder-inited", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
