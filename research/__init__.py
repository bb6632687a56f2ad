"""The figures and tables of the papers, each as one experiment that can be run again."""
