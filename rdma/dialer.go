package rdma

import "context"

// A Dialer makes connections to peers that listen.
type Dialer interface {
	// Dial connects to the network address addr, host and port, and
	// returns when the peer has accepted.
	Dial(ctx context.Context, addr string, c ConnConfig) (Conn, error)
}
