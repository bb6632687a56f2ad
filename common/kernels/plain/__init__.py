"""The kernels as simple compiled loops with the rank known at run time: quick to compile, quick enough."""
