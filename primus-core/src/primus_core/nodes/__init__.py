"""The nodes of one run that the user starts one by one: they meet, agree, and end together. Standard library only.

Its modules are imported one by one: every run asks `place` whether there are other nodes, and few have some.
"""
