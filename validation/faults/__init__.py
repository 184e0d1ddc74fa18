"""Faults on purpose: real work of the command is broken in every way that machines break it, and then looked at.

`python -m validation.faults` from the repository prints the table and stores it. After each fault three questions are
asked: was finished work lost, is a result wrong or half-written and taken for whole, did the user see a traceback.
"""
