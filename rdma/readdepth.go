package rdma

// ReadDepth is a Conn that can tell how many RDMA Reads and atomic operations
// may be outstanding on it at a time.
type ReadDepth interface {
	// ReadDepth returns how many of the peer's this end serves (IRD), and how
	// many of its own it may have outstanding (ORD), as both ends agreed.
	ReadDepth() (ird, ord int)
}
