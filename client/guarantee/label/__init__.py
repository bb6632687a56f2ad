"""A privacy label: what a certificate promises, in words for everybody, as a picture and as a page.

What it says and in which order follows "We Need a Standard": Toward an Expert-Informed Privacy Label for
Differential Privacy (Dibia et al. 2025, arXiv:2507.15997): the promise and whom it protects first, in plain words,
then the parameters that experts ask for.
"""
