package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A stepError names the step on the way to a server that failed, the reason,
// and the remedy.
type stepError struct {
	at           string // the server
	step         string
	what, remedy string
	err          error
}

// Error returns one sentence.
func (e *stepError) Error() string {
	text := fmt.Sprintf("%s: %s: %s", e.at, e.step, e.what)
	if e.remedy != "" { // otherwise it is in what
		text += "; " + e.remedy
	}
	return text
}

// Unwrap returns the cause.
func (e *stepError) Unwrap() error { return e.err }

// ended reports whether ctx ended for another reason than --timeout. Such an
// end needs no explanation.
func ended(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTimeout)
}

// timedOut reports whether err is the consequence of a timeout.
func timedOut(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

const otherPort = "correct the port: NFS on RDMA has 20049 by custom, and 2049 is NFS over TCP"

// dialError returns the error of a failed TCP connect.
func dialError(ctx context.Context, addr string, err error) error {
	if ended(ctx) {
		return context.Cause(ctx)
	}
	e := &stepError{at: addr, step: "TCP connect", err: err}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		e.step, e.what, e.remedy = "resolve", "no such host", "correct the name, or write an address"
	case errors.As(err, &dns):
		e.step, e.what, e.remedy = "resolve", "the name service does not answer", "repair it (see /etc/resolv.conf), or write an address"
	case timedOut(ctx, err):
		e.what = "no answer: the host is down, or something on the way drops packets"
		e.remedy = "start the host, correct the address, or open the port in its firewall"
	case errors.Is(err, unix.ECONNREFUSED):
		e.what = "connection refused: the host is up, but nothing listens on the port"
		e.remedy = "start nfsrdmad there (or knfsd, with rdma for RDMA), or correct the port"
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH):
		e.what = "no route to the host"
		e.remedy = "start it, correct the address, or repair the network between the hosts"
	default:
		e.what, e.remedy = errno(err), "correct the address"
	}
	return e
}

// closed reports whether err is that of a connection that has ended.
func closed(err error) bool {
	return errors.Is(err, rdma.ErrClosed) || errors.Is(err, oncrpc.ErrClosed)
}

// errno returns the host's innermost reason, without operations and addresses
// in front.
func errno(err error) string {
	var no unix.Errno
	if errors.As(err, &no) {
		return no.Error()
	}
	return err.Error()
}

// startupError returns the error of a failed MPA start-up.
func startupError(ctx context.Context, addr string, err error) error {
	if ended(ctx) {
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
		e.what = "the server refused the connection"
		e.remedy = "see its log for the reason: it may be full, or not serve NFS on RDMA at this port"
	case errors.As(err, &number) && number != mpa.ErrFrame:
		e.what, e.remedy = "the server's offer cannot be accepted: "+number.Error(), "change its IRD, ORD or RTR settings"
	case errors.Is(err, mpa.ErrFrame):
		e.what, e.remedy = "the program at that port is no RDMA service", otherPort
	case timedOut(ctx, err):
		e.what, e.remedy = "the program at that port accepted the connection and stays silent: it hangs, or is no RDMA service", otherPort
	case hungUp(err):
		e.what, e.remedy = "the other end hung up without an answer, as a program without RDMA does", otherPort
	default:
		e.what, e.remedy = err.Error(), otherPort
	}
	return e
}

// hungUp reports whether the peer closed the connection.
func hungUp(err error) bool {
	for _, cause := range []error{io.EOF, io.ErrUnexpectedEOF, unix.ECONNRESET, unix.EPIPE} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// helloError returns the error of the first call on a connection, or over TCP that of the
// connection.
func helloError(ctx context.Context, addr string, err error) error {
	if ended(ctx) {
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
		e.what, e.remedy = "the server speaks RPC, but not NFS", "correct the port"
	case errors.As(err, &refused) && refused.High > 0:
		e.what = fmt.Sprintf("the server has NFS versions %d to %d only, this client has version %d", refused.Low, refused.High, nfs3.Version)
		e.remedy = "turn version 3 on there (knfsd: vers3=y in /etc/nfs.conf)"
	case timedOut(ctx, err):
		e.step, e.what, e.remedy = "RPC", "the server accepted the connection, but answers no call", "see whether it hangs, and restart it"
	case errors.Is(err, oncrpc.ErrClosed) && hungUp(err):
		e.step, e.what, e.remedy = "RPC", "the other end hung up without an answer, as a program without NFS over TCP does", otherPort
	case closed(err):
		return lostError(addr, err)
	default:
		e.what, e.remedy = err.Error(), "see the server's log"
	}
	return e
}

// lost returns an error in words if err means that the command cannot continue,
// because the server is lost or ctx has ended. Otherwise it returns nil.
func lost(ctx context.Context, err error) error {
	if gone, ok := errors.AsType[*oncrpc.UnreachableError](err); ok {
		if final(gone.Last) { // a server without TLS, for instance: the end of the connection matters less
			return tlsError(gone.Server, err)
		}
		return lostError(gone.Server, err)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// lostError returns the error of a working connection that broke and could not
// be replaced in time.
func lostError(addr string, err error) error {
	e := &stepError{at: addr, step: "connection lost", err: err}
	var fault *iwarp.Fault
	switch {
	case errors.Is(err, oncrpc.ErrSilent):
		e.what = "the server is silent: it hangs, or the network is cut"
		e.remedy = "run the command again when it is back (--timeout changes how long to wait)"
	case errors.As(err, &fault) && fault.Remote:
		e.what, e.remedy = "the server found a fault and ended it: "+fault.Terminate.String(), "see its log; one of the two ends has a bug"
	case errors.As(err, &fault):
		e.what, e.remedy = "the server broke the protocol: "+fault.Terminate.String(), "see its log; one of the two ends has a bug"
	case hungUp(err):
		e.what, e.remedy = "the server closed it: it was stopped, killed or restarted", "run the command again when it is back"
	default:
		e.what, e.remedy = err.Error(), "run the command again"
	}
	return e
}
