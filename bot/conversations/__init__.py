"""One conversation: what is said in it becomes turns, turns become runs, and runs wait for each other.

actor.py takes everything in order; the other files are what it is made of.
"""
