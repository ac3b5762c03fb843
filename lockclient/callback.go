package lockclient

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rpcbind"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A callback takes the calls by which the server says that a lock is free.
type callback struct {
	c        *Client
	from     []netip.Addr // the server's addresses
	server   oncrpc.Server
	services []rpcbind.Service
	ended    chan error

	answers sync.WaitGroup // GRANTED_RES calls under way
	room    chan struct{}  // holds an element for each of them
}

// listen opens the port for GRANTED, and registers it with the rpcbind of this
// host. If the kernel's own lock manager is registered, the server's calls go
// there.
func (c *Client) listen(ctx context.Context) (*callback, error) {
	ctx, cancel := context.WithTimeout(ctx, searchStep)
	defer cancel()
	b := &callback{c: c, from: addresses(ctx, c.cfg.Server.Host), ended: make(chan error, 1), room: make(chan struct{}, maxCallers)}
	if len(b.from) == 0 {
		return nil, fmt.Errorf("no address of %s", c.cfg.Server.Host)
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, err
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	b.services = rpcbind.Services("tcp", at, nlm4.Program, nlm4.Version)
	if err := c.cfg.RPCBind.Register(ctx, b.services); err != nil {
		l.Close()
		return nil, err
	}
	mux := &oncrpc.Mux{Log: c.cfg.Log}
	mux.Register(nlm4.Program, nlm4.Version, b)
	mux.Restrict(nlm4.Program, b.isServer)
	b.server = oncrpc.Server{Handler: mux, MaxRecord: maxRecord, MaxConns: maxCallers, Log: c.cfg.Log}
	go func() { b.ended <- b.server.Serve(l) }()
	return b, nil
}

func (b *callback) close() {
	ctx, cancel := context.WithTimeout(context.Background(), searchStep)
	defer cancel()
	if err := b.c.cfg.RPCBind.Unregister(ctx, b.services); err != nil {
		b.c.cfg.Log.Warn("the port for locks is still registered", "err", err)
	}
	now, stop := context.WithCancel(ctx)
	stop()
	_ = b.server.Shutdown(now)
	<-b.ended
	b.answers.Wait()
}

// isServer reports whether a caller has an address of the server.
func (b *callback) isServer(p *oncrpc.Peer) bool {
	return slices.Contains(b.from, p.Addr.Addr().Unmap())
}

// ServeRPC implements oncrpc.Handler.
func (b *callback) ServeRPC(_ context.Context, call *oncrpc.Call, r *oncrpc.Reply) error {
	switch call.Proc {
	case nlm4.ProcNull:
		return call.Args.Done()
	case nlm4.ProcGranted, nlm4.ProcGrantedMsg:
	default:
		return oncrpc.ErrProcUnavail
	}
	var args nlm4.TestArgs
	args.Decode(&call.Args, nlm4.Version)
	if err := call.Args.Done(); err != nil {
		return err
	}
	res := nlm4.Res{Cookie: args.Cookie, Status: nlm4.Denied}
	if b.c.granted(&args) {
		res.Status = nlm4.Granted
	}
	wire := res.AppendTo(nil, nlm4.Version)
	if call.Proc == nlm4.ProcGranted {
		r.Head = append(r.Head, wire...)
		return nil
	}
	select {
	case b.room <- struct{}{}:
		b.answers.Go(func() {
			defer func() { <-b.room }()
			cred := rpcmsg.Cred{Flavor: rpcmsg.AuthSys}
			_ = b.c.line.try(b.c.life, nlm4.ProcGrantedRes, &cred, wire, func(*xdr.Reader) {}) // otherwise the server asks again
		})
	default: // the server asks again
	}
	return nil
}

// granted wakes the waiter that a GRANTED is for. Without such a waiter, granted
// reports whether the lock is held, as when the server repeats itself.
func (c *Client) granted(a *nlm4.TestArgs) bool {
	r := locks.Range{Start: a.Lock.Offset, End: locks.ToEnd}
	if n := a.Lock.Length; n > 0 && n-1 <= locks.ToEnd-r.Start {
		r.End = r.Start + n - 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[string(a.Lock.Handle)]
	if f == nil {
		return false
	}
	for _, w := range f.queue {
		if w.h.id.svid == a.Lock.SVID && w.Range == r && w.Exclusive == a.Exclusive && w.asked && !w.ended {
			select {
			case w.awake <- struct{}{}:
			default: // awake already
			}
			return true
		}
	}
	for _, h := range f.holders {
		if h.id.svid == a.Lock.SVID && h.holdsLocked(piece{r, locks.KindOf(a.Exclusive)}) {
			return true
		}
	}
	return false
}
