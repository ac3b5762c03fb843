package nlmclient

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
)

// Errors that a Client's methods return.
var (
	// ErrDenied means that another owner holds a conflicting lock, and the
	// request does not wait.
	ErrDenied = errors.New("nlmclient: another owner holds a conflicting lock")
	// ErrDeadlock means that this mount's owners would wait for each other
	// forever.
	ErrDeadlock = errors.New("nlmclient: deadlock")
	// ErrReply means that the server's results cannot be decoded.
	ErrReply = errors.New("nlmclient: malformed results")
	// ErrClosed means that the Client was closed.
	ErrClosed = errors.New("nlmclient: closed")
)

// Errno returns the host's error number for a Client's error: the number that
// Linux's NFS client returns to programs.
func Errno(err error) syscall.Errno {
	var status nlm4.Status
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrDenied):
		return syscall.EAGAIN
	case errors.Is(err, ErrDeadlock):
		return syscall.EDEADLK
	case errors.As(err, &status):
		return errnos[status]
	}
	return syscall.ENOLCK
}

var errnos = map[nlm4.Status]syscall.Errno{
	nlm4.Denied: syscall.EAGAIN, nlm4.DeniedNoLocks: syscall.ENOLCK, nlm4.Deadlock: syscall.EDEADLK,
	nlm4.ReadOnly: syscall.EROFS, nlm4.StaleFH: syscall.ESTALE, nlm4.TooBig: syscall.EOVERFLOW,
	nlm4.Failed: syscall.ENOLCK, nlm4.Blocked: syscall.ENOLCK, nlm4.DeniedGrace: syscall.ENOLCK,
}

// statusError returns the error for a call with the Status s.
func statusError(proc uint32, s nlm4.Status) error {
	switch s {
	case nlm4.Denied:
		return ErrDenied
	case nlm4.Deadlock:
		return ErrDeadlock
	}
	return fmt.Errorf("NLM %s: %w", nlm4.ProcName(proc), s)
}
