"""Builders and Hypothesis strategies, shipped so that plugins and later rooms can test against the same values.

Promise: what a builder makes is valid; what is not given has a plain default.
"""
