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

// largeCall is the size of the long calls in bytes: longer than a packet anywhere except
// on the loopback device. largeCallTimeout is their time limit.
const (
	largeCall        = 96 << 10
	largeCallTimeout = 4 * time.Second
)

// maxReadCandidates bounds the directory entries among which a file to read is searched.
const maxReadCandidates = 100

// checkLargeCalls sends calls that are longer than a packet. If they do not arrive although
// short calls do, full-size packets are lost on the path, and so are the ICMP messages that
// report it (RFC 2923, Section 2.1). The connection may be unusable afterwards, so this must
// be the last check.
func (e *examination) checkLargeCalls(ctx context.Context, s *session) {
	from, conn := s.netConn().LocalAddr(), s.line.Conn()
	within, cancel := context.WithTimeoutCause(ctx, e.largeTimeout, errTimeout)
	defer cancel()
	x := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthNone}, Args: make([]byte, largeCall)}
	err := s.line.Call(within, &x)
	if err == nil {
		x.Release()
	}
	_, answered := errors.AsType[*oncrpc.ReplyError](err)
	switch {
	case err == nil, answered: // the server may reject arguments of NULL
	case ctx.Err() != nil:
		return
	case isTimeout(within, err):
		e.diagnoseTimeout(ctx, s, conn, "to the server", from)
		return
	default:
		e.addError("large-calls", doctor.Warn, lostError(e.at.addr(), err))
		return
	}
	n, err := e.readFromExports(ctx, s)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		e.diagnoseTimeout(ctx, s, conn, "from the server", from)
	case n > 0:
		e.addOK("large-calls", "calls of %d bytes arrive, and replies of %d", largeCall, n)
	default:
		e.addOK("large-calls", "calls of %d bytes arrive; replies were not tested, because there is no file to read", largeCall)
	}
}

// diagnoseTimeout finds out why a long call or reply is late on a connection, by a short call
// on the same connection: it waits behind lost packets, but not for a slow disk.
func (e *examination) diagnoseTimeout(ctx context.Context, s *session, conn oncrpc.LineConn, way string, from net.Addr) {
	within, cancel := context.WithTimeoutCause(ctx, e.largeTimeout, errTimeout)
	defer cancel()
	x := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthNone}}
	err := s.line.Call(within, &x)
	if err == nil {
		x.Release()
	}
	switch {
	case ctx.Err() != nil:
	case s.line.Conn() != conn:
		e.addFinding("large-calls", doctor.Warn, fmt.Sprintf("the connection ended when a message of %d bytes was to go %s", largeCall, way),
			"see the server's log: it may accept only shorter messages, or a middlebox may close connections")
	case err == nil:
		e.addFinding("large-calls", doctor.Warn, fmt.Sprintf("a message of %d bytes %s takes more than %v, and short ones do not", largeCall, way, e.largeTimeout),
			"check whether the server's disks are slow or asleep, and try again")
	default:
		e.diagnoseMTU(ctx, way, from)
	}
}

// diagnoseMTU checks whether the server replies to short calls on another connection.
func (e *examination) diagnoseMTU(ctx context.Context, way string, from net.Addr) {
	within, cancel := context.WithTimeoutCause(ctx, e.timeout, errTimeout)
	defer cancel()
	other, err := e.connect(within, e.at.server, e.commandConfig())
	if err != nil {
		e.addError("large-calls", doctor.Fail, err)
		return
	}
	other.close()
	device, mtu := deviceOf(from)
	e.addFinding("large-calls", doctor.Fail, fmt.Sprintf("short messages arrive, and long ones %s do not: packets as long as the MTU of %s, %d bytes, are lost on the path", way, device, mtu),
		"let ICMP (\"fragmentation needed\", \"packet too big\") through all firewalls, or lower the MTU: ip link set dev "+device+" mtu 1280, and try again")
}

// deviceOf returns the device that has an address, and its MTU.
func deviceOf(local net.Addr) (name string, mtu int) {
	list, _ := net.Interfaces() // without a list, no device is found
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

// readFromExports reads the start of a file in a mounted export. It returns an error only if
// the server does not reply in time.
func (e *examination) readFromExports(ctx context.Context, s *session) (n int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.largeTimeout, errTimeout)
	defer cancel()
	for _, fs := range s.mounted {
		n, err := readFirstFile(ctx, fs)
		if n > 0 || err != nil && isTimeout(ctx, err) {
			return n, err
		}
	}
	return 0, nil
}

// readFirstFile reads one of the first regular files in the root directory that this user may
// read.
func readFirstFile(ctx context.Context, fs *nfsclient.FS) (n int, err error) {
	looked := 0
	for d, err := range fs.ReadDir(ctx, "") {
		if looked++; err != nil || looked > maxReadCandidates {
			return 0, err
		}
		if d.Handle == nil || !d.Attr.OK || d.Attr.Attr.Type != nfs3.TypeReg || d.Attr.Attr.Size < 1<<14 {
			continue
		}
		b := make([]byte, min(d.Attr.Attr.Size, largeCall))
		n, err := fs.File(d.Handle).ReadAt(ctx, b, 0)
		if err == nil || errors.Is(err, io.EOF) || isTimeout(ctx, err) {
			return n, err
		}
	}
	return 0, nil
}
