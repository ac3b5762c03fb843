package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/doctor"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// largeCall is how long the long calls are, in bytes: more than a packet anywhere but on
// the loopback device. largeTime is how long they may take.
const (
	largeCall = 96 << 10
	largeTime = 4 * time.Second
)

// maxLooked is how many names of a directory large looks at for a file to read.
const maxLooked = 100

// large makes calls that are longer than a packet. If they do not arrive though short
// calls do, packets of full length are lost on the way, and so are the messages of ICMP
// that say so (RFC 2923, Section 2.1). The connection may be of no use afterwards, so that
// this is the last check.
func (e *examination) large(ctx context.Context, s *session) {
	from, conn := s.netConn().LocalAddr(), s.line.Conn()
	within, cancel := context.WithTimeoutCause(ctx, e.largeTime, errTimeout)
	defer cancel()
	x := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthNone}, Args: make([]byte, largeCall)}
	err := s.line.Call(within, &x)
	if err == nil {
		x.Release()
	}
	_, answered := errors.AsType[*oncrpc.ReplyError](err)
	switch {
	case err == nil, answered: // the server may refuse arguments of NULL
	case ctx.Err() != nil:
		return
	case timedOut(within, err):
		e.late(ctx, s, conn, "to the server", from)
		return
	default:
		e.failed("large-calls", doctor.Warn, lostError(e.at.addr(), err))
		return
	}
	n, err := e.read(ctx, s)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		e.late(ctx, s, conn, "from the server", from)
	case n > 0:
		e.ok("large-calls", "calls of %d bytes arrive, and replies of %d", largeCall, n)
	default:
		e.ok("large-calls", "calls of %d bytes arrive; replies were not tried, without a file to read", largeCall)
	}
}

// late finds the reason of a call or a reply that is late on a connection. A short call on the same
// connection tells: it waits behind packets that are lost, but not for a slow disk.
func (e *examination) late(ctx context.Context, s *session, conn oncrpc.LineConn, way string, from net.Addr) {
	within, cancel := context.WithTimeoutCause(ctx, e.largeTime, errTimeout)
	defer cancel()
	x := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthNone}}
	err := s.line.Call(within, &x)
	if err == nil {
		x.Release()
	}
	switch {
	case ctx.Err() != nil:
	case s.line.Conn() != conn:
		e.found("large-calls", doctor.Warn, fmt.Sprintf("the connection ended when a message of %d bytes was to go %s", largeCall, way),
			"see the server's log: it may take shorter messages alone, or a program on the way may end connections")
	case err == nil:
		e.found("large-calls", doctor.Warn, fmt.Sprintf("a message of %d bytes %s takes more than %v, and short ones do not", largeCall, way, e.largeTime),
			"see whether the server's disks are slow or asleep, and try again")
	default:
		e.hole(ctx, way, from)
	}
}

// hole says whether the server answers short calls on another connection.
func (e *examination) hole(ctx context.Context, way string, from net.Addr) {
	within, cancel := context.WithTimeoutCause(ctx, e.timeout, errTimeout)
	defer cancel()
	other, err := e.connect(within, e.at.server, e.brief())
	if err != nil {
		e.failed("large-calls", doctor.Fail, err)
		return
	}
	other.close()
	device, mtu := deviceOf(from)
	e.found("large-calls", doctor.Fail, fmt.Sprintf("short messages arrive, and long ones %s do not: packets as long as the MTU of %s, %d bytes, are lost on the way", way, device, mtu),
		"let ICMP (\"fragmentation needed\", \"packet too big\") through all firewalls, or lower the MTU: ip link set dev "+device+" mtu 1280, and try again")
}

// deviceOf returns the device that has an address, and its MTU.
func deviceOf(local net.Addr) (name string, mtu int) {
	list, _ := net.Interfaces() // of no list, no device is found
	for i := range list {
		addrs, _ := list[i].Addrs()
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if at, tcp := local.(*net.TCPAddr); ok && tcp && n.IP.Equal(at.IP) {
				return list[i].Name, list[i].MTU
			}
		}
	}
	return "DEVICE", 0
}

// read reads the start of a file of a mounted export. It returns no error but that of a
// silent server.
func (e *examination) read(ctx context.Context, s *session) (n int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.largeTime, errTimeout)
	defer cancel()
	for _, fs := range s.mounted {
		n, err := readSome(ctx, fs)
		if n > 0 || err != nil && timedOut(ctx, err) {
			return n, err
		}
	}
	return 0, nil
}

// readSome reads one of the first regular files of a directory that this user may read.
func readSome(ctx context.Context, fs *nfsclient.FS) (n int, err error) {
	looked := 0
	for d, err := range fs.ReadDir(ctx, "") {
		if looked++; err != nil || looked > maxLooked {
			return 0, err
		}
		if d.Handle == nil || !d.Attr.OK || d.Attr.Attr.Type != nfs3.TypeReg || d.Attr.Attr.Size < 1<<14 {
			continue
		}
		b := make([]byte, min(d.Attr.Attr.Size, largeCall))
		n, err := fs.File(d.Handle).ReadAt(ctx, b, 0)
		if err == nil || errors.Is(err, io.EOF) || timedOut(ctx, err) {
			return n, err
		}
	}
	return 0, nil
}
