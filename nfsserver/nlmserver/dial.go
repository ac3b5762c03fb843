package nlmserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A Line is a connection for calls to a program on a client's host.
type Line interface {
	oncrpc.Caller
	io.Closer
}

// A Dialer opens a Line to a program version at a Machine's address, and at no other. ctx applies
// only to the dialing.
type Dialer func(ctx context.Context, m nfs4state.Machine, prog, vers uint32) (Line, error)

// A gatedLine sends no call when its tenure is over: a client that was granted a lock then would
// believe that it has what the next host gives to others.
type gatedLine struct {
	Line
	tenure *tenure.Tenure
}

// Call sends a call, unless the tenure is over.
func (l gatedLine) Call(ctx context.Context, x *oncrpc.Exchange) error {
	if err := l.tenure.Check(); err != nil {
		return err
	}
	return l.Line.Call(ctx, x)
}

// gateCalls returns a Dialer for lines that end with a tenure.
func gateCalls(dial Dialer, held *tenure.Tenure) Dialer {
	return func(ctx context.Context, m nfs4state.Machine, prog, vers uint32) (Line, error) {
		if err := held.Check(); err != nil {
			return nil, err
		}
		l, err := dial(ctx, m, prog, vers)
		if err != nil {
			return nil, err
		}
		return gatedLine{l, held}, nil
	}
}

// mayCallBack reports whether the server may call the caller's host about locks. Such calls use
// a new, unencrypted connection, so they are not made if the client's calls are encrypted.
func (s *Server) mayCallBack(p *oncrpc.Peer) bool {
	return !s.onlyEncrypted && (p == nil || p.Security == nil)
}

// errNoAddress means that a client has no address, such as one within this
// process.
var errNoAddress = errors.New("nlmserver: the client has no address")

// dialHost queries rpcbind on the Machine's host for the port, and connects to it by TCP or, if the
// program is not registered for TCP, by UDP. The source address is the one that the Machine has
// called, because Linux's lock manager accepts no other.
func dialHost(ctx context.Context, m nfs4state.Machine, prog, vers uint32) (Line, error) {
	return dialer{m, rpcbind.Port}.dialProgram(ctx, prog, vers)
}

// dialProgram opens a Line to a program version, by TCP or UDP.
func (d dialer) dialProgram(ctx context.Context, prog, vers uint32) (Line, error) {
	if !d.Addr.IsValid() {
		return nil, errNoAddress
	}
	nc, err := d.dialPort(ctx, "tcp", d.rpcbind)
	if err != nil {
		return nil, fmt.Errorf("nlmserver: rpcbind of the client: %w", err)
	}
	c := oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{})
	defer c.Close()
	port, err := d.lookupPort(ctx, c, prog, vers, rpcbind.TCP, rpcbind.NetidTCP6)
	if errors.Is(err, rpcbind.ErrNotRegistered) {
		return d.dialUDP(ctx, prog, vers)
	}
	if err == nil {
		nc, err = d.dialPort(ctx, "tcp", port)
	}
	if err != nil {
		return nil, fmt.Errorf("nlmserver: %w", err)
	}
	return oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{}), nil
}

// dialUDP opens a Line by UDP. It also queries rpcbind by UDP: over TCP, rpcbind does not return
// UDP ports for IPv6 (RFC 1833, Section 2.2.1).
func (d dialer) dialUDP(ctx context.Context, prog, vers uint32) (Line, error) {
	nc, err := d.dialPort(ctx, "udp", d.rpcbind)
	if err != nil {
		return nil, fmt.Errorf("nlmserver: rpcbind of the client: %w", err)
	}
	defer nc.Close()
	port, err := d.lookupPort(ctx, udpLine{nc}, prog, vers, rpcbind.UDP, rpcbind.NetidUDP6)
	if err == nil {
		nc, err = d.dialPort(ctx, "udp", port)
	}
	if err != nil {
		return nil, fmt.Errorf("nlmserver: %w", err)
	}
	return udpLine{nc}, nil
}

// A dialer connects to a Machine's host. rpcbind is the port of its rpcbind.
type dialer struct {
	nfs4state.Machine
	rpcbind uint16
}

// dialPort connects to a port on the host.
func (d dialer) dialPort(ctx context.Context, network string, port uint16) (net.Conn, error) {
	to := net.Dialer{}
	if l := d.Local; l.IsValid() && !l.IsUnspecified() {
		from := netip.AddrPortFrom(l, 0)
		to.LocalAddr = net.TCPAddrFromAddrPort(from)
		if network == "udp" {
			to.LocalAddr = net.UDPAddrFromAddrPort(from)
		}
	}
	return to.DialContext(ctx, network, netip.AddrPortFrom(d.Addr, port).String())
}

// lookupPort queries rpcbind for a program's port. Only rpcbind versions 3 and 4 support IPv6.
func (d dialer) lookupPort(ctx context.Context, c oncrpc.Caller, prog, vers, proto uint32, netid6 string) (uint16, error) {
	if d.Addr.Is4() {
		return rpcbind.GetPort(ctx, c, prog, vers, proto)
	}
	return rpcbind.GetAddr(ctx, c, prog, vers, netid6)
}

// isReply reports whether an error is a program's reply.
func isReply(err error) bool {
	if _, ok := errors.AsType[*oncrpc.ReplyError](err); ok {
		return true
	}
	_, ok := errors.AsType[rpcmsg.AuthError](err)
	return ok
}

// A udpLine sends calls by UDP, one at a time. Messages must be short, as those of this package's
// programs are.
type udpLine struct{ net.Conn }

const (
	maxPacket      = 4096        // maximum reply size in bytes
	resendInterval = time.Second // time until a call is sent again
)

// Call sends a call, and retransmits it until ctx is done.
func (p udpLine) Call(ctx context.Context, x *oncrpc.Exchange) error {
	name, _ := os.Hostname() // informational
	xid := rand.Uint32()
	msg := append(oncrpc.AppendCall(nil, xid, x, name), x.Args...)
	b := buf.Default.Get(maxPacket)
	for ctx.Err() == nil {
		if _, err := p.Write(msg); err != nil {
			b.Release()
			return err
		}
		until := time.Now().Add(resendInterval)
		if end, ok := ctx.Deadline(); ok && end.Before(until) {
			until = end
		}
		_ = p.SetReadDeadline(until) // cannot fail: the socket is open
		for {
			n, err := p.Read(b.B[:maxPacket])
			if err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) {
					break
				}
				b.Release()
				return err
			}
			r := xdr.NewReader(b.B[:n])
			if err := oncrpc.ReadReply(&r, xid); err == nil {
				x.Results, x.Lent = r, b
				return nil
			} else if isReply(err) {
				b.Release()
				return err
			} // otherwise a reply to another call
		}
	}
	b.Release()
	return context.Cause(ctx)
}
