package discover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A Port is a client's endpoint. Only one goroutine at a time may use it.
type Port struct {
	dev    *roce.Device
	pd     *roce.ProtectionDomain
	ud     *roce.UD
	qkey   uint32 // random; any value would do
	cookie map[netip.Addr]uint64
	memory [receiveCount][]byte
	in     chan serverMessage
}

// A serverMessage is a message from a server.
type serverMessage struct {
	replyHeader
	from netip.Addr
	body xdr.Reader
}

// NewPort opens a port on a device, which the caller still owns.
func NewPort(dev *roce.Device) (*Port, error) {
	p := &Port{
		dev: dev, pd: dev.NewProtectionDomain(), qkey: rand.Uint32() &^ (1 << 31),
		cookie: make(map[netip.Addr]uint64), in: make(chan serverMessage, receiveCount),
	}
	var err error
	if p.ud, err = p.pd.NewUD(roce.UDConfig{Recv: p, Recvs: receiveCount}); err != nil {
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

// Close closes the port.
func (p *Port) Close() { p.ud.Close() }

// Complete receives a message (roce.Completer). Messages that are not read in time
// are lost, as on any network.
func (p *Port) Complete(c roce.Completion) {
	if !c.Received || c.Err != nil {
		return
	}
	m := p.memory[c.ID]
	b := append([]byte(nil), m[roce.GRHLen:c.Bytes]...)
	if r, body, err := parseReply(b); err == nil {
		select {
		case p.in <- serverMessage{r, c.From.Addr, body}:
		default:
		}
	}
	_ = p.ud.PostRecv(roce.Recv{Data: m, ID: c.ID}) // cannot fail: the receive has just completed
}

// A requestBody is the rest of a request after its header.
type requestBody interface{ AppendTo([]byte) []byte }

// sendRequest sends a request of at least length bytes.
func (p *Port) sendRequest(to netip.Addr, k Kind, id uint64, m requestBody, length int) error {
	qp := uint32(QP)
	if to.IsMulticast() {
		qp = packet.MulticastQP
	}
	q := Request{Kind: k, ID: id, QKey: p.qkey, Cookie: p.cookie[to]}
	var done sendCompletion
	err := p.ud.Post(roce.WR{
		Op: rdma.OpSend, Data: [][]byte{padRequest(m.AppendTo(q.AppendTo(nil)), length)}, Done: &done,
		To: roce.Destination{Address: roce.Address{Addr: to}, QP: qp, QKey: QKey},
	})
	return errors.Join(err, done.Err)
}

// A sendCompletion stores the completion of one work request.
type sendCompletion struct{ roce.Completion }

func (c *sendCompletion) Complete(got roce.Completion) { c.Completion = got }

// A RefusedError reports that a server has rejected a request.
type RefusedError struct{ Reason Reason }

func (e *RefusedError) Error() string { return "refused: " + e.Reason.String() }

// ErrNoAnswer reports that no reply arrived in time.
var ErrNoAnswer = errors.New("no answer")

// call sends a request, and repeats it until a reply arrives or ctx is done, with a
// cookie if the server requires one. Other messages that arrive in the meantime are
// passed to aside, which may be nil.
func (p *Port) call(ctx context.Context, to netip.Addr, k Kind, m requestBody, aside func(*serverMessage)) (*serverMessage, error) {
	id := rand.Uint64()
	for try := 0; ; try++ {
		if err := p.sendRequest(to, k, id, m, minRequest); err != nil {
			return nil, err
		}
		in, err := p.awaitAnswer(ctx, to, id, retryTimes[min(try, len(retryTimes)-1)], aside)
		switch {
		case err != nil:
			return nil, err
		case in == nil:
			continue
		case in.Kind == kindRefused:
			r, err := parseRefused(&in.body)
			if err != nil {
				continue
			}
			fresh := p.cookie[to] != r.Cookie
			p.cookie[to] = r.Cookie
			if r.Reason == refusedCookie && fresh {
				id = rand.Uint64()
				continue
			}
			return nil, &RefusedError{r.Reason}
		case in.Kind == k+1:
			return in, nil
		}
	}
}

// awaitAnswer waits for the reply to a request, and returns nil if none arrives
// within wait.
func (p *Port) awaitAnswer(ctx context.Context, from netip.Addr, id uint64, wait time.Duration, aside func(*serverMessage)) (*serverMessage, error) {
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
