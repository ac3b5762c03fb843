package nfs4server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A plainCaller is the server's own connection to a client of version 4.0, over TCP
// also for clients of RDMA (RFC 8267, Section 6.5.1). It lasts while there are
// callbacks to make.
type plainCaller struct {
	mu     sync.Mutex
	to     nfs4state.Callback
	client *oncrpc.TCPClient // nil: none
}

// get returns the connection to a client, made if there is none.
func (p *plainCaller) get(ctx context.Context, to nfs4state.Callback) (*oncrpc.TCPClient, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil && p.to == to {
		return p.client, nil
	}
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
	client, err := oncrpc.DialTCP(ctx, to.Addr.String(), oncrpc.ClientConfig{})
	if err != nil {
		return nil, err
	}
	p.to, p.client = to, client
	return client, nil
}

// drop ends a connection on which a call has failed.
func (p *plainCaller) drop(failed *oncrpc.TCPClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == failed {
		p.client.Close()
		p.client = nil
	}
}

// close ends the connection. Nobody may use p any more.
func (p *plainCaller) close() {
	if p.client != nil {
		p.client.Close()
	}
}

// probeTime is how long the server tries whether a new callback works.
const probeTime = 10 * time.Second

// A probe is a CB_NULL, which finds out whether the callback of a client of version 4.0
// works. callbacks.mu guards it.
type probe struct {
	end time.Time

	// asked is set by a wish for the probe after it was sent: the client may have
	// another callback meanwhile.
	asked bool
}

// tryCallback finds out whether the callback of a client of version 4.0 works: only
// then does the client get delegations (RFC 7530, Section 10.2). A client has one probe
// at most, however often it confirms its ID.
func (r *callbacks) tryCallback(id uint64) {
	r.mu.Lock()
	p, runs := r.probes[id]
	if !runs {
		p = new(probe)
		r.probes[id] = p
	}
	p.end, p.asked = time.Now().Add(probeTime), true
	r.mu.Unlock()
	if runs {
		return
	}
	r.add(&callback{
		client: id, pause: probeTime / 4,
		wanted: func() bool { return r.sends(id, p) },
		taken:  func() { r.answered(id, p) },
	})
}

// sends reports whether a probe is to be sent. It ends the probe if the time is over.
func (r *callbacks) sends(id uint64, p *probe) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.asked = false
	if time.Now().Before(p.end) {
		return true
	}
	delete(r.probes, id)
	return false
}

// answered ends a probe, or begins it again.
func (r *callbacks) answered(id uint64, p *probe) {
	r.mu.Lock()
	delete(r.probes, id)
	again := p.asked
	r.mu.Unlock()
	if again {
		r.tryCallback(id)
	}
}

// callPlain makes a callback of version 4.0 once, and reports whether the client has
// taken it.
func (s *Server) callPlain(ctx context.Context, by *plainCaller, c *callback, p *nfs4state.BackPath) (taken bool) {
	ctx, cancel := context.WithTimeout(ctx, callbackTime)
	defer cancel()
	status, err := callPlainOnce(ctx, by, c, p)
	if err != nil {
		s.log.Debug("callback failed", "client", c.client, "address", p.Callback.Addr, "err", err)
	}
	s.state.CallbackAnswers(c.client, p.Callback, err == nil)
	return err == nil && (status == nfs4.OK || status == nfs4.ErrNotSupp || status == nfs4.ErrOpIllegal)
}

// plainCred returns the credential of callbacks to a client (RFC 7530, Section
// 3.3.3). A client of RPCSEC_GSS has none: the callback would have to prove that it is
// the server's, in a context of the server's own, and the server makes none.
func plainCred(p nfs4state.Principal) rpcmsg.Cred { return rpcmsg.Cred{Flavor: p.Flavor, UID: p.UID} }

func callPlainOnce(ctx context.Context, by *plainCaller, c *callback, p *nfs4state.BackPath) (nfs4.Status, error) {
	conn, err := by.get(ctx, p.Callback)
	if err != nil {
		return 0, err
	}
	// Linux takes calls without a credential for CB_NULL alone.
	x := oncrpc.Exchange{Prog: p.Callback.Program, Vers: nfs4.CBVersion, Proc: nfs4.CBProcNull, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthNone}}
	if c.op != 0 {
		head := nfs4.CBCompoundArgs{Ident: p.Callback.Ident, N: 1}
		x.Proc, x.Args = nfs4.CBProcCompound, nfs4.AppendCBOp(head.AppendTo(nil), c.op, c.args)
		x.Cred, x.MaxResults = plainCred(p.Principal), maxCallbackRes
	}
	if err := conn.Call(ctx, &x); err != nil {
		by.drop(conn)
		return 0, err
	}
	defer x.Release()
	if c.op == 0 {
		return nfs4.OK, nil
	}
	status, err := readPlain(&x.Results, c.op)
	if err == nil && c.answered != nil {
		c.answered(status, &x.Results)
	}
	return status, err
}

// readPlain reads the results of a CB_COMPOUND of one operation.
func readPlain(r *xdr.Reader, op nfs4.CBOp) (nfs4.Status, error) {
	var head nfs4.CompoundRes
	head.Decode(r)
	if r.Err() != nil || head.N == 0 {
		return head.Status, r.Err()
	}
	if got := nfs4.CBOp(r.Uint32()); got != op && got != nfs4.CBOpIllegal {
		return 0, fmt.Errorf("results of %v in place of %v", got, op)
	}
	status := nfs4.Status(r.Uint32())
	return status, r.Err()
}
