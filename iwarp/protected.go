package iwarp

import (
	"context"
	"net"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
)

// secure returns the connection for MPA over nc, and the device with the configuration
// for that.
func (d *Device) secure(ctx context.Context, nc net.Conn) (*Device, net.Conn, error) {
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
func (r *request) NetConn() net.Conn { return r.nc }

// NetConn returns the connection below MPA, for facts about it. The caller must neither
// use nor close it.
func (c *Conn) NetConn() net.Conn { return c.sock.nc }
