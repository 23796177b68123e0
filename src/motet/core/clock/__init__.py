"""The cluster clock: a hybrid logical clock that outlives kill -9, and the time a cluster agrees on.

::

    hlc                what a clock value is, and the arithmetic on it
    reservation        a clock that hands out values below a durable bound; plain state to embed
    bound_file         the bytes of that bound on disk
    messages           what nodes and clients ask of a clock, and the answers
    node_clock         the machine that serves one node's clock
    transaction_clock  one clock for a transaction over several nodes
    marzullo           the interval most sources agree on
    cluster_time       the wall time a quorum of replicas agrees on; plain state to embed
    time_peer          the machine that keeps it by ping and pong
"""
