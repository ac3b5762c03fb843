package nlmclient

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A grantedServer serves the GRANTED calls, by which the NFS server says that a
// lock is free.
type grantedServer struct {
	client      *Client
	serverAddrs []netip.Addr // the server's addresses
	server      oncrpc.Server
	services    []rpcbind.Service
	serveErr    chan error

	replies    sync.WaitGroup // GRANTED_RES calls in flight
	replySlots chan struct{}  // has an element for each of them
}

// listenForGranted opens the port for GRANTED, and registers it with this
// host's rpcbind. It fails if the kernel's lock manager is registered, which
// then gets the server's calls.
func (c *Client) listenForGranted(ctx context.Context) (*grantedServer, error) {
	ctx, cancel := context.WithTimeout(ctx, searchStep)
	defer cancel()
	b := &grantedServer{client: c, serverAddrs: lookUpAddrs(ctx, c.cfg.Server.Hosts), serveErr: make(chan error, 1), replySlots: make(chan struct{}, maxCallers)}
	if len(b.serverAddrs) == 0 {
		return nil, fmt.Errorf("%s has no address", strings.Join(c.cfg.Server.Hosts, " or "))
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
	go func() { b.serveErr <- b.server.Serve(l) }()
	return b, nil
}

func (b *grantedServer) closeServer() {
	ctx, cancel := context.WithTimeout(context.Background(), searchStep)
	defer cancel()
	if err := b.client.cfg.RPCBind.Unregister(ctx, b.services); err != nil {
		b.client.cfg.Log.Warn("cannot unregister the port for GRANTED calls", "err", err)
	}
	now, stop := context.WithCancel(ctx)
	stop()
	_ = b.server.Shutdown(now)
	<-b.serveErr
	b.replies.Wait()
}

// isServer reports whether a caller has one of the server's addresses.
func (b *grantedServer) isServer(p *oncrpc.Peer) bool {
	return slices.Contains(b.serverAddrs, p.Addr.Addr().Unmap())
}

// ServeRPC implements oncrpc.Handler.
func (b *grantedServer) ServeRPC(_ context.Context, call *oncrpc.Call, r *oncrpc.Reply) error {
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
	if b.client.acceptGranted(&args) {
		res.Status = nlm4.Granted
	}
	wire := res.AppendTo(nil, nlm4.Version)
	if call.Proc == nlm4.ProcGranted {
		r.Head = append(r.Head, wire...)
		return nil
	}
	select {
	case b.replySlots <- struct{}{}:
		b.replies.Go(func() {
			defer func() { <-b.replySlots }()
			cred := rpcmsg.Cred{Flavor: rpcmsg.AuthSys}
			_ = b.client.lockManager.callOnce(b.client.ctx, nlm4.ProcGrantedRes, &cred, wire, func(*xdr.Reader) {}) // if this fails, the server repeats the call
		})
	default: // the server repeats the call
	}
	return nil
}

// acceptGranted wakes the request that a GRANTED is for, and returns true. If
// there is none, it reports whether the lock is held, as when the server
// repeats the call.
func (c *Client) acceptGranted(a *nlm4.TestArgs) bool {
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
		if w.holder.identity.svid == a.Lock.SVID && w.Range == r && w.Exclusive == a.Exclusive && w.mayBlock && !w.ended {
			select {
			case w.retryNow <- struct{}{}:
			default: // already notified
			}
			return true
		}
	}
	for _, h := range f.holders {
		if h.identity.svid == a.Lock.SVID && h.holdsLocked(lockPiece{r, locks.KindOf(a.Exclusive)}) {
			return true
		}
	}
	return false
}
