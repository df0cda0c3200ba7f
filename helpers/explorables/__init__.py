"""Explorables: drawings that their reader moves, and that compute at once.

Each is a module of JavaScript that can be read in one sitting, with a style sheet, and a module of
Python of the same name that draws the still picture. ``stage`` is what they share.
"""
