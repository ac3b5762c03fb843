package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/pcap"
	"github.com/nfsrdma/nfsrdma/internal/samehost"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/recorder"
)

// A RejectedError reports that the responder rejected the connection (RFC 5044,
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
	if !d.cfg.Unenhanced && !d.cfg.PeerToPeer && suggestsRevision1(err) {
		revision1 := *d
		revision1.cfg.Unenhanced = true
		if c, again := revision1.dialOnce(ctx, addr, cc); again == nil {
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

// DialTCP opens a connection for Client, as Dial does. Unlike with net.Dial, a
// connection within the host is not paced.
func DialTCP(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Control: samehost.ControlDial}
	return d.DialContext(ctx, network, addr)
}

// suggestsRevision1 reports whether a start-up failed the way it does when the responder supports
// only MPA revision 1: the responder closes the connection without a reply, or its reply is not
// enhanced (RFC 6581, Section 10).
func suggestsRevision1(err error) bool {
	return errors.Is(err, errNoReply) || errors.Is(err, mpa.ErrEnhanced)
}

// Client starts MPA as initiator on a connection that has carried no data yet.
// It owns nc, even if it fails.
func (d *Device) Client(ctx context.Context, nc net.Conn, cc rdma.ConnConfig) (*Conn, error) {
	device, mpaConn, err := d.secureConn(ctx, nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	c, err := device.initiateMPA(ctx, mpaConn, cc)
	if err != nil {
		mpaConn.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return c, nil
}

// initiateMPA performs the MPA start-up over nc as its initiator, and starts the connection.
func (d *Device) initiateMPA(ctx context.Context, nc net.Conn, cc rdma.ConnConfig) (*Conn, error) {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = nc.SetDeadline(longPast)
		close(stopped)
	})
	defer stop()
	local := d.cfg.mpaLocal()
	req := mpa.NewRequest(local)
	req.PrivateData = cc.PrivateData
	record := recorder.New(nc, d.cfg.Record, pcap.Client)
	_ = nc.SetDeadline(time.Now().Add(d.cfg.startupTimeout()))
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
	var mpaErr mpa.Error
	if errors.As(err, &mpaErr) && mpaErr != mpa.ErrFrame {
		return nil, d.terminateStartup(nc, mpaErr, mpa.Params{CRC: req.CRC || reply.CRC, SendMarkers: reply.Markers})
	}
	if err != nil {
		return nil, fmt.Errorf("iwarp: %w", err)
	}
	c := d.newConn(newSocket(nc), params, reply, cc, false)
	c.sock.record = record
	c.startReader()
	if params.PeerToPeer {
		c.tx.sendRTR(c, params.RTR)
	}
	return c, nil
}

// terminateStartup sends a Terminate with the reason to a responder whose reply is not acceptable
// (RFC 6581, Section 9), and closes TCP in an orderly way.
func (d *Device) terminateStartup(nc net.Conn, number mpa.Error, params mpa.Params) error {
	fault := localFault(number)
	plain := &Device{rnic: d.rnic} // Config.Ended is not called for a connection that was never established
	c := plain.newConn(newSocket(nc), params, mpa.Frame{}, rdma.ConnConfig{Handler: discardHandler{}}, false)
	c.shutDown(fault)
	return fault
}

// discardHandler is the Handler for a connection that is never established.
type discardHandler struct{}

func (discardHandler) Receive(m rdma.Recv) { m.Buf.Release() }
func (discardHandler) Closed(error)        {}
