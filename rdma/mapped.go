package rdma

// A MappedSender is a Conn that can tell whether it sends well out of a mapping of
// a file.
type MappedSender interface {
	// SendsMapped tells whether Data of a WR with Reread costs no more
	// than the same in a buffer, into which the file would have to be read.
	SendsMapped() bool
}
