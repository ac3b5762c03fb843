package rdma

// A LazyBuffer lends an RDMA Read its memory when the octets come. Of many Reads under way,
// few have memory then, which is soon used again and still in the processor's caches.
type LazyBuffer interface {
	// Len returns how many octets to read.
	Len() int

	// Lend returns memory of Len octets, which belongs to the connection until
	// the work request completes. It is called once, when the first octets have
	// come, or not at all: of no octets, and where the request fails before. It
	// must neither wait nor use the connection.
	Lend() []byte
}
