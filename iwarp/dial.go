package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/pcap"
	"github.com/nfsrdma/nfsrdma/internal/samehost"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/recorder"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A RejectedError reports that the responder refused the connection (RFC 5044,
// Section 7.1.2).
type RejectedError struct {
	Reply mpa.Frame // with the responder's private data, IRD and ORD
}

// Error implements error.
func (e *RejectedError) Error() string { return "iwarp: the peer rejected the connection" }

// Dial connects to a responder over TCP, IPv4 or IPv6. The connection is a
// *Conn.
func (d *Device) Dial(ctx context.Context, addr string, cc rdma.ConnConfig) (rdma.Conn, error) {
	c, err := d.dialOnce(ctx, addr, cc)
	if err == nil {
		return c, nil
	}
	if !d.cfg.Unenhanced && !d.cfg.PeerToPeer && unknowing(err) {
		older := *d
		older.cfg.Unenhanced = true
		if c, again := older.dialOnce(ctx, addr, cc); again == nil {
			return c, nil
		}
	}
	return nil, err
}

func (d *Device) dialOnce(ctx context.Context, addr string, cc rdma.ConnConfig) (*Conn, error) {
	nc, err := DialTCP(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return d.Client(ctx, nc, cc)
}

// DialTCP makes a connection for Client, as Dial does. Within the host the
// connection is not paced, unlike a connection of net.Dial.
func DialTCP(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Control: samehost.SpeedDial}
	return d.DialContext(ctx, network, addr)
}

// unknowing reports whether a start-up ended as with a responder that knows
// only MPA revision 1: the responder closes the connection without a reply, or
// its reply is not enhanced (RFC 6581, Section 10).
func unknowing(err error) bool {
	return errors.Is(err, errNoReply) || errors.Is(err, mpa.ErrEnhanced)
}

// Client starts MPA as initiator on a connection that has carried nothing yet.
// It takes over nc, even if it fails.
func (d *Device) Client(ctx context.Context, nc net.Conn, cc rdma.ConnConfig) (*Conn, error) {
	device, over, err := d.secure(ctx, nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	c, err := device.initiate(ctx, over, cc)
	if err != nil {
		over.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return c, nil
}

func (d *Device) initiate(ctx context.Context, nc net.Conn, cc rdma.ConnConfig) (*Conn, error) {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = nc.SetDeadline(longPast)
		close(stopped)
	})
	defer stop()
	local := d.cfg.local()
	req := mpa.NewRequest(local)
	req.PrivateData = cc.PrivateData
	record := recorder.New(nc, d.cfg.Record, pcap.Client)
	_ = nc.SetDeadline(time.Now().Add(d.cfg.startup()))
	if err := writeFrame(record.Tap(nc), req); err != nil {
		return nil, err
	}
	reply, err := readReply(record.Tap(nc))
	if err != nil {
		return nil, err
	}
	params, err := mpa.Complete(req, reply, local)
	if errors.Is(err, mpa.ErrRejected) {
		return nil, &RejectedError{Reply: reply}
	}
	if err == nil && !stop() {
		<-stopped
		err = mpa.ErrLocal
	}
	_ = nc.SetDeadline(time.Time{})
	var number mpa.Error
	if errors.As(err, &number) && number != mpa.ErrFrame {
		return nil, d.refuse(nc, number, mpa.Params{CRC: req.CRC || reply.CRC, SendMarkers: reply.Markers})
	}
	if err != nil {
		return nil, fmt.Errorf("iwarp: %w", err)
	}
	c := d.newConn(newSocket(nc), params, reply, cc, false)
	c.sock.record = record
	c.start()
	if params.PeerToPeer {
		c.tx.sendRTR(c, params.RTR)
	}
	return c, nil
}

// refuse sends the responder, whose reply is not acceptable, a Terminate with
// the reason (RFC 6581, Section 9), and closes TCP in order.
func (d *Device) refuse(nc net.Conn, number mpa.Error, params mpa.Params) error {
	fault := localFault(number)
	plain := &Device{rnic: d.rnic} // Config.Ended does not learn of what never began
	c := plain.newConn(newSocket(nc), params, mpa.Frame{}, rdma.ConnConfig{Handler: nobody{}}, false)
	c.finish(fault)
	return fault
}

// nobody is the upper layer of a connection that is never established.
type nobody struct{}

func (nobody) Receive(m rdma.Recv) { m.Buf.Release() }
func (nobody) Closed(error)        {}
