"""The rounds of a fleet: asked over a grid, admitted answer by answer."""
