"""Drawings that explain a mechanism: one SVG file each, in a folder of the chapter's number.

A drawing is written by hand. It is 480 units wide, and its letters are at least 14 units high, so
that they are 10 pixels high on a phone. Its colors are the variables of a figure's style, each with
the color of a light page to fall back on, or ``currentcolor``, which is the page's own ink.
"""
