package lockclient

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
)

// Errors of the methods of a Client.
var (
	// ErrDenied: another owner has a lock in the way, and the request does not
	// wait.
	ErrDenied = errors.New("lockclient: another holds a lock in the way")
	// ErrDeadlock: the owners of this mount would wait for each other for ever.
	ErrDeadlock = errors.New("lockclient: deadlock")
	// ErrReply: the server's results do not decode.
	ErrReply = errors.New("lockclient: malformed results")
	// ErrClosed: the Client was closed.
	ErrClosed = errors.New("lockclient: closed")
)

// Errno returns the host's error number for an error of a Client: the numbers
// that Linux's client gives to programs.
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

// refused returns the error of a call that the server answered with a Status.
func refused(proc uint32, s nlm4.Status) error {
	switch s {
	case nlm4.Denied:
		return ErrDenied
	case nlm4.Deadlock:
		return ErrDeadlock
	}
	return fmt.Errorf("NLM %s: %w", nlm4.ProcName(proc), s)
}
