package rpcrdma

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A tapListener is a listener whose connections record the posts, and fail on request.
type tapListener struct {
	rdma.Listener

	failAccept error
	from       net.Addr // the dialler's address, if not nil
	onSend     func()   // called when a Send is about to be posted
	onPost     func([]rdma.WR)
	handsOff   bool        // readers serve calls
	mapped     bool        // items may be in mappings
	trickles   bool        // connections seem to move
	awaits     func() bool // whether a disk delays the connections' data

	mu       sync.Mutex
	posts    [][]rdma.Op
	recvs    []int // receives that the peer had used up at each post of a Send
	used     int
	failPost error

	registered int // the server's regions
}

func (p *tapListener) Accept(ctx context.Context) (rdma.ConnRequest, error) {
	r, err := p.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &tappedRequest{r, p, p.from}, nil
}

type tappedRequest struct {
	rdma.ConnRequest
	p    *tapListener
	from net.Addr
}

func (r *tappedRequest) RemoteAddr() net.Addr {
	if r.from != nil {
		return r.from
	}
	return r.ConnRequest.RemoteAddr()
}

func (r *tappedRequest) Accept(cfg rdma.ConnConfig) (rdma.Conn, error) {
	if err := r.p.failAccept; err != nil {
		_ = r.Reject(nil)
		return nil, err
	}
	cfg.Handler = &tappedHandler{cfg.Handler, r.p}
	c, err := r.ConnRequest.Accept(cfg)
	if err != nil {
		return nil, err
	}
	tapped := &tappedConn{c, r.p}
	switch {
	case r.p.handsOff:
		return handOffConn{tapped}, nil
	case r.p.mapped:
		return mappedSendConn{tapped}, nil
	case r.p.trickles:
		return &trickleConn{Conn: tapped}, nil
	case r.p.awaits != nil:
		return diskWaitConn{tapped}, nil
	}
	return tapped, nil
}

type tappedHandler struct {
	rdma.Handler
	p *tapListener
}

func (h *tappedHandler) Receive(r rdma.Recv) {
	h.p.mu.Lock()
	h.p.used++
	h.p.mu.Unlock()
	h.Handler.Receive(r)
}

// receiving reports whether it is called from within a Receive.
func receiving() bool { return calledBy("tappedHandler).Receive") }

// calledBy reports whether it is called from within a method.
func calledBy(method string) bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for {
		f, more := frames.Next()
		switch {
		case strings.HasSuffix(f.Function, method):
			return true
		case !more:
			return false
		}
	}
}

type tappedConn struct {
	rdma.Conn
	p *tapListener
}

func (c *tappedConn) PostRecv(n int) error {
	c.p.mu.Lock()
	c.p.used -= n
	c.p.mu.Unlock()
	return c.Conn.PostRecv(n)
}

func (c *tappedConn) Register(b []byte, access rdma.Access) (rdma.Region, error) {
	c.p.mu.Lock()
	c.p.registered++
	c.p.mu.Unlock()
	return c.Conn.Register(b, access)
}

func (c *tappedConn) Post(wrs ...rdma.WR) error {
	c.p.mu.Lock()
	err := c.p.failPost
	var ops []rdma.Op
	for _, wr := range wrs {
		ops = append(ops, wr.Op)
	}
	c.p.posts = append(c.p.posts, ops)
	if ops[len(ops)-1] == rdma.OpSend {
		c.p.recvs = append(c.p.recvs, c.p.used)
	}
	c.p.mu.Unlock()
	if err != nil {
		return err
	}
	if c.p.onSend != nil && ops[len(ops)-1] == rdma.OpSend {
		c.p.onSend()
	}
	if c.p.onPost != nil {
		c.p.onPost(wrs)
	}
	return c.Conn.Post(wrs...)
}
