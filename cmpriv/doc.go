// Package cmpriv is the message that RPC-over-RDMA peers put into the private
// data of a connection's set-up (RFC 8797): how long a Send each of them takes,
// and whether a Send may invalidate memory. Octets in, struct out.
//
//	 0        4         5                6           7
//	+--------+---------+--------------+-+-----------+--------------+
//	|f6ab0e18| version | reserved (7) |R| send size | receive size |
//	+--------+---------+--------------+-+-----------+--------------+
//
// The package must not know what carries the private data, nor how thresholds
// follow from two messages. Parse keeps nothing of its input.
package cmpriv
