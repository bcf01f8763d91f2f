"""Other people's words, translated into ours: resource names, annotations, node inventories, chip catalogues.

Promise: one normaliser turns a pod into a request and one registry of readers turns a node into devices; nobody
else reads limits, labels or annotations. Vendors are rows of tables. Pure: no I/O except reading the tables that
ship in the package.
"""
