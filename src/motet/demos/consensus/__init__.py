"""Five replicas, killed, cut off and with rotten disks, while clients write down all that they are told."""
