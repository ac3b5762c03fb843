// Package cmpriv is the message that RPC-over-RDMA peers put into the private
// data of a connection's set-up (RFC 8797): how long a Send each of them takes,
// and whether a Send may invalidate memory; and the block of this project's own
// that may follow it. Octets in, struct out.
//
//	 0        4         5                6           7
//	+--------+---------+--------------+-+-----------+--------------+
//	|f6ab0e18| version | reserved (7) |R| send size | receive size |
//	+--------+---------+--------------+-+-----------+--------------+
//
//	 0        4         5       6                    8      12               20
//	+--------+---------+-------+--------------------+------+----------------+-------+
//	|6e667278| version | flags | immediate receives | STag | tagged offset  | slots |
//	+--------+---------+-------+--------------------+------+----------------+-------+
//
// The package must not know what carries the private data, nor how thresholds
// and features follow from what two ends say. It keeps nothing of its input.
package cmpriv
