"""The explorer in the browser: knobs, theory and training side by side.

`festina explore` starts it. It needs the extra `explore`: `pip install 'festina[explore]'`.
"""
