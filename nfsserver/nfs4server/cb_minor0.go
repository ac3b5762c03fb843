package nfs4server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A minor0Conn is the server's own connection to an NFSv4.0 client, over TCP even if the client
// uses RDMA (RFC 8267, Section 6.5.1). It is kept while there are callbacks to send.
type minor0Conn struct {
	connect func(ctx context.Context, addr string, c oncrpc.ClientConfig) (*oncrpc.TCPClient, error) // nil: oncrpc.DialTCP

	mu      sync.Mutex
	target  nfs4state.Callback
	client  *oncrpc.TCPClient // nil: none
	dialing *minor0Dial       // in progress, or nil
}

// A minor0Dial is an attempt to connect, shared by all callbacks that arrive in the meantime.
type minor0Dial struct {
	target nfs4state.Callback
	done   chan struct{} // closed when the rest is set
	client *oncrpc.TCPClient
	err    error
}

// getClient returns the connection to a client, and dials it if there is none.
func (p *minor0Conn) getClient(ctx context.Context, target nfs4state.Callback) (*oncrpc.TCPClient, error) {
	p.mu.Lock()
	if p.client != nil && p.target == target {
		defer p.mu.Unlock()
		return p.client, nil
	}
	d, first := p.dialing, false
	if d == nil || d.target != target {
		d, first = &minor0Dial{target: target, done: make(chan struct{})}, true
		p.dialing = d
	}
	p.mu.Unlock()
	if first {
		p.dialClient(ctx, d)
	}
	select {
	case <-d.done:
		return d.client, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// errOtherCallback reports that the client has changed its callback during an attempt to
// connect.
var errOtherCallback = errors.New("the client has changed its callback")

// dialClient connects. The new connection replaces an earlier one.
func (p *minor0Conn) dialClient(ctx context.Context, d *minor0Dial) {
	connect := p.connect
	if connect == nil {
		connect = oncrpc.DialTCP
	}
	client, err := connect(ctx, d.target.Addr.String(), oncrpc.ClientConfig{})
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(d.done)
	switch {
	case err != nil:
		d.err = err
	case p.dialing != d:
		client.Close()
		d.err = errOtherCallback
	default:
		if p.client != nil {
			p.client.Close()
		}
		p.target, p.client, d.client = d.target, client, client
	}
	if p.dialing == d {
		p.dialing = nil
	}
}

// dropClient closes a connection on which a call has failed.
func (p *minor0Conn) dropClient(failed *oncrpc.TCPClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == failed {
		p.client.Close()
		p.client = nil
	}
}

// closeClient closes the connection. The caller must not use p afterwards.
func (p *minor0Conn) closeClient() {
	if p.client != nil {
		p.client.Close()
	}
}

// probeTime is the time during which the server tests a new callback.
const probeTime = 10 * time.Second

// A callbackProbe is a CB_NULL that tests an NFSv4.0 client's callback. callbackQueues.mu
// guards it.
type callbackProbe struct {
	deadline time.Time

	// again is set by a request for the probe after it was sent: the client may have changed
	// its callback in the meantime.
	again bool
}

// probeCallback tests an NFSv4.0 client's callback: only if it works does the client get
// delegations (RFC 7530, Section 10.2). A client has at most one probe, however often it
// confirms its ID.
func (r *callbackQueues) probeCallback(id uint64) {
	r.mu.Lock()
	p, runs := r.probes[id]
	if !runs {
		p = new(callbackProbe)
		r.probes[id] = p
	}
	p.deadline, p.again = time.Now().Add(probeTime), true
	r.mu.Unlock()
	if runs {
		return
	}
	r.enqueue(&callback{
		client: id, retryDelay: probeTime / 4,
		isWanted:   func() bool { return r.shouldProbe(id, p) },
		onAccepted: func() { r.finishProbe(id, p) },
	})
}

// shouldProbe reports whether a probe should be sent. It ends the probe after its deadline.
func (r *callbackQueues) shouldProbe(id uint64, p *callbackProbe) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.again = false
	if time.Now().Before(p.deadline) {
		return true
	}
	delete(r.probes, id)
	return false
}

// finishProbe ends a probe, or starts it again.
func (r *callbackQueues) finishProbe(id uint64, p *callbackProbe) {
	r.mu.Lock()
	delete(r.probes, id)
	restart := p.again
	r.mu.Unlock()
	if restart {
		r.probeCallback(id)
	}
}

// sendMinor0Callback sends an NFSv4.0 callback once, and reports whether the client has
// accepted it.
func (s *Server) sendMinor0Callback(ctx context.Context, conn *minor0Conn, c *callback, p *nfs4state.BackPath) (taken bool) {
	ctx, cancel := context.WithTimeout(ctx, callbackTimeout)
	defer cancel()
	status, err := s.sendMinor0Once(ctx, conn, c, p)
	if err != nil {
		s.log.Debug("callback failed", "client", c.client, "address", p.Callback.Addr, "err", err)
	}
	s.state.CallbackAnswers(c.client, p.Callback, err == nil)
	return err == nil && (status == nfs4.OK || status == nfs4.ErrNotSupp || status == nfs4.ErrOpIllegal)
}

// minor0Cred returns the credential for callbacks to a client (RFC 7530, Section 3.3.3). A
// client that uses RPCSEC_GSS gets no callbacks: the server would have to prove its identity in
// a security context of its own, and it establishes none.
func minor0Cred(p nfs4state.Principal) rpcmsg.Cred { return rpcmsg.Cred{Flavor: p.Flavor, UID: p.UID} }

func (s *Server) sendMinor0Once(ctx context.Context, minor0 *minor0Conn, c *callback, p *nfs4state.BackPath) (nfs4.Status, error) {
	conn, err := minor0.getClient(ctx, p.Callback)
	if err == nil {
		err = s.tenure.Check()
	}
	if err != nil {
		return 0, err
	}
	// Linux accepts calls without a credential only for CB_NULL.
	x := oncrpc.Exchange{Prog: p.Callback.Program, Vers: nfs4.CBVersion, Proc: nfs4.CBProcNull, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthNone}}
	if c.op != 0 {
		head := nfs4.CBCompoundArgs{Ident: p.Callback.Ident, N: 1}
		x.Proc, x.Args = nfs4.CBProcCompound, nfs4.AppendCBOp(head.AppendTo(nil), c.op, c.args)
		x.Cred, x.MaxResults = minor0Cred(p.Principal), maxCallbackResLen
	}
	if err := conn.Call(ctx, &x); err != nil {
		minor0.dropClient(conn)
		return 0, err
	}
	defer x.Release()
	if c.op == 0 {
		return nfs4.OK, nil
	}
	status, err := parseMinor0Reply(&x.Results, c.op)
	if err == nil && c.onReply != nil {
		c.onReply(status, &x.Results)
	}
	return status, err
}

// parseMinor0Reply parses CB_COMPOUND results with one operation.
func parseMinor0Reply(r *xdr.Reader, op nfs4.CBOp) (nfs4.Status, error) {
	var head nfs4.CompoundRes
	head.Decode(r)
	if r.Err() != nil || head.N == 0 {
		return head.Status, r.Err()
	}
	if got := nfs4.CBOp(r.Uint32()); got != op && got != nfs4.CBOpIllegal {
		return 0, fmt.Errorf("results of %v instead of %v", got, op)
	}
	status := nfs4.Status(r.Uint32())
	return status, r.Err()
}
