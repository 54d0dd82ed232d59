"""BibTeX entries of the papers that the experiments cite. `festina cite` prints them."""

from collections.abc import Iterable

BIBTEX = {
    "baldi1989neural": """\
@article{baldi1989neural,
  title   = {Neural networks and principal component analysis: Learning from examples
             without local minima},
  author  = {Baldi, Pierre and Hornik, Kurt},
  journal = {Neural Networks},
  volume  = {2},
  number  = {1},
  pages   = {53--58},
  year    = {1989},
  doi     = {10.1016/0893-6080(89)90014-2}
}""",
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
    "braun2022exact": """\
@inproceedings{braun2022exact,
  title     = {Exact learning dynamics of deep linear networks with prior knowledge},
  author    = {Braun, Lukas and Domin{\\'e}, Cl{\\'e}mentine C. J. and Fitzgerald, James E.
               and Saxe, Andrew M.},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {35},
  year      = {2022}
}""",
    "domine2025lazy": """\
@inproceedings{domine2025lazy,
  title     = {From lazy to rich: Exact learning dynamics in deep linear networks},
  author    = {Domin{\\'e}, Cl{\\'e}mentine C. J. and Anguita, Nicolas and Proca, Alexandra M.
               and Braun, Lukas and Kunin, Daniel and Mediano, Pedro A. M. and Saxe, Andrew M.},
  booktitle = {The Thirteenth International Conference on Learning Representations},
  year      = {2025}
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
    "gromov2023grokking": """\
@misc{gromov2023grokking,
  title         = {Grokking modular arithmetic},
  author        = {Gromov, Andrey},
  year          = {2023},
  eprint        = {2301.02679},
  archiveprefix = {arXiv}
}""",
    "jarvis2025make": """\
@inproceedings{jarvis2025make,
  title         = {Make haste slowly: A theory of emergent structured mixed selectivity in feature
                   learning {ReLU} networks},
  author        = {Jarvis, Devon and Klein, Richard and Rosman, Benjamin and Saxe, Andrew M.},
  booktitle     = {The Thirteenth International Conference on Learning Representations},
  year          = {2025},
  eprint        = {2503.06181},
  archiveprefix = {arXiv}
}""",
    "kunin2024get": """\
@inproceedings{kunin2024get,
  title     = {Get rich quick: exact solutions reveal how unbalanced initializations promote
               rapid feature learning},
  author    = {Kunin, Daniel and Ravent{\\'o}s, Allan and Domin{\\'e}, Cl{\\'e}mentine
               and Chen, Feng and Klindt, David and Saxe, Andrew and Ganguli, Surya},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {37},
  year      = {2024}
}""",
    "kunin2025alternating": """\
@inproceedings{kunin2025alternating,
  title         = {Alternating gradient flows: A theory of feature learning in two-layer neural
                   networks},
  author        = {Kunin, Daniel and Marchetti, Giovanni Luca and Chen, Feng and Karkada, Dhruva
                   and Simon, James B. and DeWeese, Michael R. and Ganguli, Surya
                   and Miolane, Nina},
  booktitle     = {Advances in Neural Information Processing Systems},
  year          = {2025},
  eprint        = {2506.06489},
  archiveprefix = {arXiv}
}""",
    "pesme2023saddle": """\
@inproceedings{pesme2023saddle,
  title     = {Saddle-to-saddle dynamics in diagonal linear networks},
  author    = {Pesme, Scott and Flammarion, Nicolas},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {36},
  year      = {2023}
}""",
    "liebana2025dopamine": """\
@article{liebana2025dopamine,
  title   = {Dopamine encodes deep network teaching signals for individual learning trajectories},
  author  = {Liebana, Samuel and Laffere, Aeron and Toschi, Chiara and Schilling, Louisa
             and Moretti, Jessica and Podlaski, Jacek and Fritsche, Matthias
             and Zatka-Haas, Peter and Li, Yulong and Bogacz, Rafal and Saxe, Andrew
             and Lak, Armin},
  journal = {Cell},
  volume  = {188},
  number  = {14},
  pages   = {3789--3805},
  year    = {2025},
  doi     = {10.1016/j.cell.2025.05.025}
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
    "saxe2019mathematical": """\
@article{saxe2019mathematical,
  title   = {A mathematical theory of semantic development in deep neural networks},
  author  = {Saxe, Andrew M. and McClelland, James L. and Ganguli, Surya},
  journal = {Proceedings of the National Academy of Sciences},
  volume  = {116},
  number  = {23},
  pages   = {11537--11546},
  year    = {2019},
  doi     = {10.1073/pnas.1820226116}
}""",
    "saxe2022neural": """\
@inproceedings{saxe2022neural,
  title     = {The Neural Race Reduction: Dynamics of Abstraction in Gated Networks},
  author    = {Saxe, Andrew M. and Sodhani, Shagun and Lewallen, Sam},
  booktitle = {Proceedings of the 39th International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {162},
  pages     = {19287--19309},
  year      = {2022},
  url       = {https://proceedings.mlr.press/v162/saxe22a.html}
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
    "vanmeegen2025coding": """\
@article{vanmeegen2025coding,
  title         = {Coding schemes in neural networks learning classification tasks},
  author        = {van Meegen, Alexander and Sompolinsky, Haim},
  journal       = {Nature Communications},
  volume        = {16},
  pages         = {3354},
  year          = {2025},
  eprint        = {2406.16689},
  archiveprefix = {arXiv}
}""",
}


def bibtex(keys: Iterable[str]) -> str:
    """Return the BibTeX entries of `keys`, each once, in the order given."""
    return "\n\n".join(BIBTEX[key] for key in dict.fromkeys(keys))
