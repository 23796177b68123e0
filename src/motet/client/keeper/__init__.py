"""The keeper's client: nodes, watches and sessions over ZooKeeper's wire, of a keeper or of a ZooKeeper."""
