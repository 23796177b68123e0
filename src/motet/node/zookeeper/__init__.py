"""The keeper's port for ZooKeeper clients: bytes on one side, the front end's messages on the other."""
