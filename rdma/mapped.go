package rdma

// A MappedSender is a Conn that can tell whether it sends out of a mapping of a
// file without a copy.
type MappedSender interface {
	// SendsMapped tells whether Data of a WR with Truncated goes to the
	// network from where it lies. Otherwise it is copied first.
	SendsMapped() bool
}
