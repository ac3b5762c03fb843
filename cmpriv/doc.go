// Package cmpriv is the codec for the message that RPC-over-RDMA peers exchange
// in the private data during a connection's set-up (RFC 8797), and for this
// project's own block that may follow it. The message gives the maximum Send
// length that each peer accepts, and whether a Send may invalidate memory.
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
// The package must not know how the private data is transported, nor how
// thresholds and features follow from both ends' messages. It does not retain
// its input.
package cmpriv
