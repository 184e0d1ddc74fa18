"""Bad input: every reader fed with thousands of files and command lines that are almost right.

Whatever a reader is given, it returns a result or raises one InputError of one line, within a time and a memory limit,
and never runs what it was given. Cases start from valid files. Run it with ``make fuzz``.
"""
