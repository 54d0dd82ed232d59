"""What the panels of Figures 1, 4 and 5 share. A panel is made of five things:

- `Parameters`, from `PanelParameters`;
- `task(parameters, key)`, `network(parameters, keys)`: what is trained on what, all seeds in one;
- `tables(parameters, task, network, keys, say)`: all that is computed. `staircase(predict)` serves
  Figure 1. Others train by `train`, take what claims and figures read from `records` (the groups
  `simulation`, `plateaus`, `drops`) and `theory`, and add tables of their own;
- `asserts(reading, say)`: its claims, one after another. `_claims.py` has those about the loss and
  about widths, `_structure.py` those about weights;
- how it looks: `title`, `symbol`, `drawn`.

`Panel` makes `run`, `claims`, `draw` and `animate` of them. A `Reading` is a saved run under the
names that claims and figures use; it knows no panel. `draw_panel` takes one with a title, for
panels that draw more than others.
"""
