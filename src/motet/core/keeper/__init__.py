"""The keeper: a small tree of nodes that every replica agrees on, with ZooKeeper's rules to the letter.

``machine`` is where to begin reading, ``operations`` says what is asked of it and what it answers.
"""
