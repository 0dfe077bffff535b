"""FAIR-QR: the loop, its trace, the order of what it found, and one refinement as a stage of its
own.
"""
