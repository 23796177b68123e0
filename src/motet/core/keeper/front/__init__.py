"""The keeper's front end: connections of ZooKeeper clients on one side, a replica on the other."""
