"""ZooKeeper's wire: what clients of ZooKeeper send and what they are answered, byte for byte."""
