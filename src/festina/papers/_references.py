"""What the experiments cite, as BibTeX. `festina cite` prints it."""

from collections.abc import Iterable

BIBTEX = {
    "boursier2022gradient": """\
@inproceedings{boursier2022gradient,
  title     = {Gradient flow dynamics of shallow {ReLU} networks for square loss
               and orthogonal inputs},
  author    = {Boursier, Etienne and Pillaud-Vivien, Loucas and Flammarion, Nicolas},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {35},
  pages     = {20105--20118},
  year      = {2022}
}""",
    "fukumizu2000local": """\
@article{fukumizu2000local,
  title   = {Local minima and plateaus in hierarchical structures of multilayer perceptrons},
  author  = {Fukumizu, Kenji and Amari, Shun-ichi},
  journal = {Neural Networks},
  volume  = {13},
  number  = {3},
  pages   = {317--327},
  year    = {2000},
  doi     = {10.1016/S0893-6080(00)00009-5}
}""",
    "saxe2014exact": """\
@inproceedings{saxe2014exact,
  title     = {Exact solutions to the nonlinear dynamics of learning in deep linear
               neural networks},
  author    = {Saxe, Andrew M. and McClelland, James L. and Ganguli, Surya},
  booktitle = {The Second International Conference on Learning Representations},
  year      = {2014},
  url       = {https://openreview.net/forum?id=_wzZwKpTDF_9C}
}""",
    "zhang2025saddle": """\
@misc{zhang2025saddle,
  title         = {Saddle-to-Saddle Dynamics Explains A Simplicity Bias
                   Across Neural Network Architectures},
  author        = {Zhang, Yedi and Saxe, Andrew and Latham, Peter E.},
  year          = {2025},
  eprint        = {2512.20607},
  archiveprefix = {arXiv}
}""",
    "zhang2025training": """\
@inproceedings{zhang2025training,
  title     = {Training dynamics of in-context learning in linear attention},
  author    = {Zhang, Yedi and Singh, Aaditya K. and Latham, Peter E. and Saxe, Andrew M.},
  booktitle = {Proceedings of the 42nd International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {267},
  pages     = {76047--76087},
  year      = {2025},
  url       = {https://proceedings.mlr.press/v267/zhang25br.html}
}""",
}


def bibtex(keys: Iterable[str]) -> str:
    """The BibTeX entries of `keys`, each once, in the order given."""
    return "\n\n".join(BIBTEX[key] for key in dict.fromkeys(keys))
