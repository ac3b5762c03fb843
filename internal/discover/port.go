package discover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce"
	"github.com/nfsrdma/nfsrdma/roce/packet"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Port is a client's end. Only one goroutine at a time may use it.
type Port struct {
	dev    *roce.Device
	pd     *roce.ProtectionDomain
	ud     *roce.UD
	qkey   uint32 // random; any value would do
	cookie map[netip.Addr]uint64
	memory [recvs][]byte
	in     chan incoming
}

// An incoming message is a message of a server.
type incoming struct {
	Reply
	from netip.Addr
	body xdr.Reader
}

// NewPort opens a port at a device, which the caller still owns.
func NewPort(dev *roce.Device) (*Port, error) {
	p := &Port{
		dev: dev, pd: dev.NewProtectionDomain(), qkey: rand.Uint32() &^ (1 << 31),
		cookie: make(map[netip.Addr]uint64), in: make(chan incoming, recvs),
	}
	var err error
	if p.ud, err = p.pd.NewUD(roce.UDConfig{Recv: p, Recvs: recvs}); err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	err = p.ud.Init(p.qkey)
	for i := range p.memory {
		p.memory[i] = make([]byte, roce.GRHLen+maxMessage)
		err = errors.Join(err, p.ud.PostRecv(roce.Recv{Data: p.memory[i], ID: uint64(i)}))
	}
	if err = errors.Join(err, p.ud.ReadyToReceive(), p.ud.ReadyToSend(0)); err != nil {
		p.ud.Close()
		return nil, err
	}
	return p, nil
}

// Close ends the port.
func (p *Port) Close() { p.ud.Close() }

// Complete takes a message (roce.Completer). Messages that are not read in time
// are lost, as on any wire.
func (p *Port) Complete(c roce.Completion) {
	if !c.Received || c.Err != nil {
		return
	}
	m := p.memory[c.ID]
	b := append([]byte(nil), m[roce.GRHLen:c.Bytes]...)
	if r, body, err := ParseReply(b); err == nil {
		select {
		case p.in <- incoming{r, c.From.Addr, body}:
		default:
		}
	}
	_ = p.ud.PostRecv(roce.Recv{Data: m, ID: c.ID}) // cannot fail: the receive has just completed
}

// A body is the rest of a request after its start.
type body interface{ AppendTo([]byte) []byte }

// send sends a request of at least length bytes.
func (p *Port) send(to netip.Addr, k Kind, id uint64, m body, length int) error {
	qp := uint32(QP)
	if to.IsMulticast() {
		qp = packet.MulticastQP
	}
	q := Request{Kind: k, ID: id, QKey: p.qkey, Cookie: p.cookie[to]}
	var done completion
	err := p.ud.Post(roce.WR{
		Op: rdma.OpSend, Data: [][]byte{pad(m.AppendTo(q.AppendTo(nil)), length)}, Done: &done,
		To: roce.Destination{Address: roce.Address{Addr: to}, QP: qp, QKey: QKey},
	})
	return errors.Join(err, done.Err)
}

// A completion keeps the completion of one work request.
type completion struct{ roce.Completion }

func (c *completion) Complete(got roce.Completion) { c.Completion = got }

// A RefusedError reports that a server has refused a request.
type RefusedError struct{ Reason Reason }

func (e *RefusedError) Error() string { return "refused: " + e.Reason.String() }

// ErrNoAnswer reports that no answer came in time.
var ErrNoAnswer = errors.New("no answer")

// ask repeats a request until an answer comes or ctx ends, with a cookie if the
// server wants one. Other messages that arrive in the meantime go to aside,
// which may be nil.
func (p *Port) ask(ctx context.Context, to netip.Addr, k Kind, m body, aside func(*incoming)) (*incoming, error) {
	id := rand.Uint64()
	for try := 0; ; try++ {
		if err := p.send(to, k, id, m, minRequest); err != nil {
			return nil, err
		}
		in, err := p.answer(ctx, to, id, askTimes[min(try, len(askTimes)-1)], aside)
		switch {
		case err != nil:
			return nil, err
		case in == nil:
			continue
		case in.Kind == KindRefused:
			r, err := parseRefused(&in.body)
			if err != nil {
				continue
			}
			fresh := p.cookie[to] != r.Cookie
			p.cookie[to] = r.Cookie
			if r.Reason == RefusedCookie && fresh {
				id = rand.Uint64()
				continue
			}
			return nil, &RefusedError{r.Reason}
		case in.Kind == k+1:
			return in, nil
		}
	}
}

// answer waits for the answer to a request, and returns nil if none comes
// within wait.
func (p *Port) answer(ctx context.Context, from netip.Addr, id uint64, wait time.Duration, aside func(*incoming)) (*incoming, error) {
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case in := <-p.in:
			if in.ID == id && in.from == from {
				return &in, nil
			}
			if aside != nil {
				aside(&in)
			}
		case <-t.C:
			return nil, nil
		case <-p.ud.Done():
			return nil, p.ud.Err()
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrNoAnswer, context.Cause(ctx))
		}
	}
}
