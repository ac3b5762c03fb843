package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A RejectedError tells that the responder refused the connection (RFC 5044,
// Section 7.1.2).
type RejectedError struct {
	Reply mpa.Frame // with the responder's private data, IRD and ORD
}

// Error says what a reject frame says.
func (e *RejectedError) Error() string { return "iwarp: the peer rejected the connection" }

// Dial connects to a responder. The network is tcp, tcp4 or tcp6.
func Dial(ctx context.Context, network, addr string, cfg Config, cc rdma.ConnConfig) (*Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return Client(ctx, nc, cfg, cc)
}

// Client starts MPA as initiator on a connection that has carried nothing yet.
// It takes nc over, also when it fails.
func Client(ctx context.Context, nc net.Conn, cfg Config, cc rdma.ConnConfig) (*Conn, error) {
	c, err := initiate(ctx, nc, cfg, cc)
	if err != nil {
		nc.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return c, nil
}

func initiate(ctx context.Context, nc net.Conn, cfg Config, cc rdma.ConnConfig) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	local := cfg.local()
	req := mpa.NewRequest(local)
	req.PrivateData = cc.PrivateData
	_ = nc.SetDeadline(time.Now().Add(cfg.startup()))
	if err := writeFrame(nc, req); err != nil {
		return nil, err
	}
	reply, err := readReply(nc)
	if err != nil {
		return nil, err
	}
	params, err := mpa.Complete(req, reply, local)
	if errors.Is(err, mpa.ErrRejected) {
		return nil, &RejectedError{Reply: reply}
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	_ = nc.SetDeadline(time.Time{})
	var number mpa.Error
	if errors.As(err, &number) && number != mpa.ErrFrame {
		return nil, refuse(nc, number, req.CRC || reply.CRC)
	}
	if err != nil {
		return nil, fmt.Errorf("iwarp: %w", err)
	}
	c := newConn(newSocket(nc), params, reply, cc, false)
	c.domain = cfg.Domain
	c.start()
	if params.PeerToPeer {
		c.tx.sendRTR(c, params.RTR)
	}
	return c, nil
}

// refuse tells the responder by a Terminate why its reply will not do (RFC
// 6581, Section 9), and closes the connection in order.
func refuse(nc net.Conn, number mpa.Error, crc bool) error {
	fault := localFault(number)
	c := newConn(newSocket(nc), mpa.Params{CRC: crc}, mpa.Frame{}, rdma.ConnConfig{Handler: nobody{}}, false)
	c.finish(fault)
	return fault
}

// nobody is the upper layer of a connection that never comes to be.
type nobody struct{}

func (nobody) Receive(m rdma.Recv) { m.Buf.Release() }
func (nobody) Closed(error)        {}
