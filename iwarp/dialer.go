package iwarp

import (
	"context"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A Dialer makes connections with one configuration. It implements
// rdma.Dialer.
type Dialer struct {
	Config Config
}

var _ rdma.Dialer = Dialer{}

// Dial connects to a responder over TCP, IPv4 or IPv6.
func (d Dialer) Dial(ctx context.Context, addr string, cc rdma.ConnConfig) (rdma.Conn, error) {
	c, err := Dial(ctx, "tcp", addr, d.Config, cc)
	if err != nil {
		return nil, err // not a nil *Conn in an interface
	}
	return c, nil
}
