package iwarp

import (
	"context"
	"net"

	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// secureConn returns the connection for MPA over nc, and a device configured for that connection.
func (d *Device) secureConn(ctx context.Context, nc net.Conn) (*Device, net.Conn, error) {
	if d.cfg.Secure == nil {
		return d, nc, nil
	}
	over, err := d.cfg.Secure(ctx, nc)
	if err != nil || over == nc {
		return d, nc, err
	}
	inside := *d
	inside.cfg.CRC, inside.cfg.Markers, inside.cfg.Record, inside.cfg.OnlySecure = mpa.CRCOff, false, 0, false
	return &inside, over, nil
}

// NetConn returns the connection below MPA.
func (r *connRequest) NetConn() net.Conn { return r.nc }

// NetConn returns the connection below MPA, for inspection. The caller must neither use nor close
// it.
func (c *Conn) NetConn() net.Conn { return c.sock.nc }
