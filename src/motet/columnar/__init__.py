"""Rows as Arrow: schemas, typed rows, blocks and part files. It needs pyarrow, as does whoever imports it.

What works without pyarrow (streams of JSON rows, the node itself) never comes here; the client imports this
package when a schema or a table is first used.
"""
