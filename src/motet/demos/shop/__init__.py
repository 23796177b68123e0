"""A small shop: writers sell from one stock, Spark follows, and one of each is killed in the middle.

::

    writer ─┐                                  ┌─ Spark driver: `motet pipeline run pipeline.py`
    writer ─┼── transactions ──► three nodes  ─┤       stock_now, sales_by_minute, in the same nodes
    writer ─┘    orders, stock                 └─ at the end: `motet pipeline check pipeline.py`

Each writer notes in a journal of its own what it is about to do and what was acknowledged, so that after
``kill -9`` it is known what must be there. At the end the feed is read back and folded by plain Python; the
journals and the tables are held against that, and the replicas of the tables against each other.
"""
