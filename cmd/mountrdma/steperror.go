package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// A stepError names the failed step of connecting to a server, the reason, and the remedy.
type stepError struct {
	at           string // the server's address
	step         string
	what, remedy string
	err          error
}

// Error returns one sentence.
func (e *stepError) Error() string {
	text := fmt.Sprintf("%s: %s: %s", e.at, e.step, e.what)
	if e.remedy != "" { // otherwise what contains it
		text += "; " + e.remedy
	}
	return text
}

// Unwrap returns the cause.
func (e *stepError) Unwrap() error { return e.err }

// isCanceled reports whether ctx was canceled for another reason than --timeout. Such an
// error needs no explanation.
func isCanceled(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTimeout)
}

// isTimeout reports whether err was caused by a timeout.
func isTimeout(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

const otherPortRemedy = "correct the port: NFS on RDMA usually has port 20049, and 2049 is NFS over TCP"

// dialError returns the error for a failed TCP connect.
func dialError(ctx context.Context, addr string, err error) error {
	if isCanceled(ctx) {
		return context.Cause(ctx)
	}
	e := &stepError{at: addr, step: "TCP connect", err: err}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		e.step, e.what, e.remedy = "resolve", "no such host", "correct the name, or use an address"
	case errors.As(err, &dns):
		e.step, e.what, e.remedy = "resolve", "the name service does not respond", "repair it (see /etc/resolv.conf), or use an address"
	case isTimeout(ctx, err):
		e.what = "no response: the host is down, or a firewall drops packets"
		e.remedy = "start the host, correct the address, or open the port in its firewall"
	case errors.Is(err, unix.ECONNREFUSED):
		e.what = "connection refused: the host is up, but nothing listens on the port"
		e.remedy = "start nfsrdmad there (or knfsd, with rdma for RDMA), or correct the port"
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH):
		e.what = "no route to the host"
		e.remedy = "start it, correct the address, or repair the network between the hosts"
	default:
		e.what, e.remedy = reasonText(err), "correct the address"
	}
	return e
}

// isConnClosed reports whether err is the error of a closed connection.
func isConnClosed(err error) bool {
	return errors.Is(err, rdma.ErrClosed) || errors.Is(err, oncrpc.ErrClosed)
}

// reasonText returns the system call error in err, without operations and addresses.
func reasonText(err error) string {
	var no unix.Errno
	if errors.As(err, &no) {
		return no.Error()
	}
	return err.Error()
}

// startupError returns the error for a failed MPA start-up.
func startupError(ctx context.Context, addr string, err error) error {
	if isCanceled(ctx) {
		return context.Cause(ctx)
	}
	if failed := tlsError(addr, err); failed != nil {
		return failed
	}
	e := &stepError{at: addr, step: "MPA start-up", err: err}
	var rejected *iwarp.RejectedError
	var number mpa.Error
	switch {
	case errors.As(err, &rejected):
		e.what = "the server rejected the connection"
		e.remedy = "see its log for the reason: the connection limit may be reached, or this port does not serve NFS on RDMA"
	case errors.As(err, &number) && number != mpa.ErrFrame:
		e.what, e.remedy = "the server's parameters cannot be accepted: "+number.Error(), "change its IRD, ORD or RTR settings"
	case errors.Is(err, mpa.ErrFrame):
		e.what, e.remedy = "the program at that port is not an RDMA service", otherPortRemedy
	case isTimeout(ctx, err):
		e.what, e.remedy = "the program at that port accepted the connection but does not respond: it hangs, or is not an RDMA service", otherPortRemedy
	case isHangup(err):
		e.what, e.remedy = "the peer closed the connection without a response, as a program without RDMA does", otherPortRemedy
	default:
		e.what, e.remedy = err.Error(), otherPortRemedy
	}
	return e
}

// isHangup reports whether err means that the peer closed the connection.
func isHangup(err error) bool {
	for _, cause := range []error{io.EOF, io.ErrUnexpectedEOF, unix.ECONNRESET, unix.EPIPE} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// firstCallError returns the error for the first call on a connection, which over TCP may be
// the error of connecting.
func firstCallError(ctx context.Context, addr string, err error) error {
	if isCanceled(ctx) {
		return context.Cause(ctx)
	}
	if failed := tlsError(addr, err); failed != nil {
		return failed
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return dialError(ctx, addr, err)
	}
	e := &stepError{at: addr, step: "NFS", err: err}
	var refused *oncrpc.ReplyError
	switch {
	case errors.Is(err, oncrpc.ErrProgUnavail):
		e.what, e.remedy = "the server supports RPC, but not NFS", "correct the port"
	case errors.As(err, &refused) && refused.High > 0:
		e.what = fmt.Sprintf("the server supports only NFS versions %d to %d, and this client needs version %d", refused.Low, refused.High, nfs3.Version)
		e.remedy = "enable NFSv3 there (knfsd: vers3=y in /etc/nfs.conf)"
	case isTimeout(ctx, err):
		e.step, e.what, e.remedy = "RPC", "the server accepted the connection, but replies to no call", "check whether it hangs, and restart it"
	case errors.Is(err, oncrpc.ErrClosed) && isHangup(err):
		e.step, e.what, e.remedy = "RPC", "the peer closed the connection without a reply, as a program without NFS over TCP does", otherPortRemedy
	case isConnClosed(err):
		return lostError(addr, err)
	default:
		e.what, e.remedy = err.Error(), "see the server's log"
	}
	return e
}

// fatalError returns an error if err means that the command cannot continue, because the
// server is lost or ctx was canceled. Otherwise it returns nil.
func fatalError(ctx context.Context, err error) error {
	if gone, ok := errors.AsType[*oncrpc.UnreachableError](err); ok {
		if isPermanent(gone.Last) { // for instance, the server has no TLS: this explains more than the lost connection
			return tlsError(gone.Server, err)
		}
		return lostError(gone.Server, err)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// lostError returns the error for an established connection that broke and could not be
// replaced in time.
func lostError(addr string, err error) error {
	e := &stepError{at: addr, step: "connection lost", err: err}
	var fault *iwarp.Fault
	switch {
	case errors.Is(err, oncrpc.ErrSilent):
		e.what = "the server does not respond: it hangs, or the network is down"
		e.remedy = "run the command again when it is back (--timeout sets the time limit)"
	case errors.As(err, &fault) && fault.Remote:
		e.what, e.remedy = "the server detected an error and terminated it: "+fault.Terminate.String(), "see its log; one of the two ends has a bug"
	case errors.As(err, &fault):
		e.what, e.remedy = "the server violated the protocol: "+fault.Terminate.String(), "see its log; one of the two ends has a bug"
	case isHangup(err):
		e.what, e.remedy = "the server closed it: it was stopped, killed or restarted", "run the command again when it is back"
	default:
		e.what, e.remedy = err.Error(), "run the command again"
	}
	return e
}
