"""Reading students' code: which cells an exercise uses, what they name, and whether they are plain.

Nothing here runs what it reads, and nothing here needs more than the standard library. The time
that reading takes grows with the length of the code and not faster, whatever the code is.
"""
