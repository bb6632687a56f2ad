"""The command line. One file per command; what a command needs is imported when it runs."""
