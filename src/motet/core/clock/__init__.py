"""The cluster clock: a hybrid logical clock that outlives kill -9, and the time a cluster agrees on.

::

    hlc           what a clock value is, and the arithmetic on it
    reservation   a clock that hands out values below a durable bound, and the file of that bound
    marzullo      the interval most sources agree on
    cluster_time  the wall time a quorum of replicas agrees on, and what they ask each other
    time_peer     the machine that keeps it by ping and pong
    node_time     what one data node takes for the time; plain state to embed

The clock of a node, which orders what is written there, is :mod:`motet.core.clock.node_clock`.
"""
