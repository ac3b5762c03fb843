package rdma

// A ByteCounter is a Conn that can tell how many octets have moved, whatever they
// were. It is how an upper layer notices that a peer is slow and not gone.
type ByteCounter interface {
	// Traffic returns how many octets the peer has sent, and how many of
	// this end's it has acknowledged; 0 where that cannot be known.
	Traffic() (in, out uint64)
}
