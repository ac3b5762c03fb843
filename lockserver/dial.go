package lockserver

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

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rpcbind"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Line makes calls to a program of a client's host, until Close.
type Line interface {
	oncrpc.Caller
	io.Closer
}

// A Dialer makes a Line to a version of a program at the address of a Machine, and at no other. ctx
// bounds only the time to make it.
type Dialer func(ctx context.Context, m nfs4state.Machine, prog, vers uint32) (Line, error)

// callable reports whether the server may tell the host of a caller of locks. It does so by a
// connection of its own, in clear: not if the calls came encrypted.
func (s *Server) callable(p *oncrpc.Peer) bool { return !s.silent && (p == nil || p.Security == nil) }

// errNowhere means that a client has no address, as one within this process.
var errNowhere = errors.New("lockserver: the client has no address")

// Dial asks the rpcbind of the Machine's host for the port, and connects to it: by TCP or, if the program
// is not there, by UDP. It does so from the address that the Machine has called, because Linux's
// lock manager believes no other.
func Dial(ctx context.Context, m nfs4state.Machine, prog, vers uint32) (Line, error) {
	return dialer{m, rpcbind.Port}.line(ctx, prog, vers)
}

// line makes a Line to a version of a program.
func (d dialer) line(ctx context.Context, prog, vers uint32) (Line, error) {
	if !d.Addr.IsValid() {
		return nil, errNowhere
	}
	nc, err := d.dial(ctx, "tcp", d.rpcbind)
	if err != nil {
		return nil, fmt.Errorf("lockserver: rpcbind of the client: %w", err)
	}
	c := oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{})
	defer c.Close()
	port, err := d.port(ctx, c, prog, vers, rpcbind.TCP, rpcbind.NetidTCP6)
	if errors.Is(err, rpcbind.ErrNotRegistered) {
		return d.packetLine(ctx, prog, vers)
	}
	if err == nil {
		nc, err = d.dial(ctx, "tcp", port)
	}
	if err != nil {
		return nil, fmt.Errorf("lockserver: %w", err)
	}
	return oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{}), nil
}

// packetLine is line by UDP. rpcbind, too, is asked by UDP: by TCP it does not name ports of UDP over IPv6 (RFC
// 1833, Section 2.2.1).
func (d dialer) packetLine(ctx context.Context, prog, vers uint32) (Line, error) {
	nc, err := d.dial(ctx, "udp", d.rpcbind)
	if err != nil {
		return nil, fmt.Errorf("lockserver: rpcbind of the client: %w", err)
	}
	defer nc.Close()
	port, err := d.port(ctx, packetLine{nc}, prog, vers, rpcbind.UDP, rpcbind.NetidUDP6)
	if err == nil {
		nc, err = d.dial(ctx, "udp", port)
	}
	if err != nil {
		return nil, fmt.Errorf("lockserver: %w", err)
	}
	return packetLine{nc}, nil
}

// A dialer connects to the host of a Machine, whose rpcbind has a port.
type dialer struct {
	nfs4state.Machine
	rpcbind uint16
}

// dial connects to a port of the host.
func (d dialer) dial(ctx context.Context, network string, port uint16) (net.Conn, error) {
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

// port asks rpcbind for a port over a protocol. Only versions 3 and 4 of rpcbind know IPv6.
func (d dialer) port(ctx context.Context, c oncrpc.Caller, prog, vers, proto uint32, netid6 string) (uint16, error) {
	if d.Addr.Is4() {
		return rpcbind.GetPort(ctx, c, prog, vers, proto)
	}
	return rpcbind.GetAddr(ctx, c, prog, vers, netid6)
}

// isReply reports whether an error is the answer of a program.
func isReply(err error) bool {
	if _, ok := errors.AsType[*oncrpc.ReplyError](err); ok {
		return true
	}
	_, ok := errors.AsType[rpcmsg.AuthError](err)
	return ok
}

// A packetLine makes calls by UDP, one after the other. It serves the programs of this package, whose
// messages are short.
type packetLine struct{ net.Conn }

const (
	maxPacket = 4096        // bytes of a reply
	resend    = time.Second // after which a call is sent again
)

// Call makes a call, which it repeats until ctx ends.
func (p packetLine) Call(ctx context.Context, x *oncrpc.Exchange) error {
	name, _ := os.Hostname() // decides nothing
	xid := rand.Uint32()
	msg := append(oncrpc.AppendCall(nil, xid, x, name), x.Args...)
	b := buf.Default.Get(maxPacket)
	for ctx.Err() == nil {
		if _, err := p.Write(msg); err != nil {
			b.Release()
			return err
		}
		until := time.Now().Add(resend)
		if end, ok := ctx.Deadline(); ok && end.Before(until) {
			until = end
		}
		_ = p.SetReadDeadline(until) // of a socket that is open
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
			} // otherwise it answers another call
		}
	}
	b.Release()
	return context.Cause(ctx)
}
