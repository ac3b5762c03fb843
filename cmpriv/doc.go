// Package cmpriv is the codec of the message that RPC-over-RDMA peers put into
// the private data of a connection's set-up (RFC 8797), and of this project's
// own block that may follow it. The message says how long a Send each peer
// takes, and whether a Send may invalidate memory.
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
// The package must not know the transport of the private data, nor how
// thresholds and features follow from the messages of both ends. It keeps
// nothing of its input.
package cmpriv
