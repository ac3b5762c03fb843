package tickets

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

// An Error reports why a user has no context.
type Error struct {
	User      string // the name, or "user 1001"
	Reason    wire.Reason
	Text      string    // the cause and the remedy
	Ended     time.Time // when the ticket expired, if Reason is wire.Expired
	transient bool      // another attempt may succeed
}

// Error returns the user and the text.
func (e *Error) Error() string { return e.User + ": " + e.Text }

// Errno returns the error that a program gets (as in Linux, nfs(5)): EKEYEXPIRED if the
// user's ticket has expired, else EACCES.
func (e *Error) Errno() unix.Errno {
	if e.Reason == wire.Expired {
		return unix.EKEYEXPIRED
	}
	return unix.EACCES
}

// NoTicket reports whether this host has no ticket for the user, not even an expired one.
// Other users may have theirs.
func (e *Error) NoTicket() bool { return e.Reason == wire.NoTicket }

// Is reports whether target is e's Errno.
func (e *Error) Is(target error) bool { return target == e.Errno() }

// failure returns an Error without a specific Reason.
func (u User) failure(format string, args ...any) error {
	return &Error{User: u.displayName(), Text: fmt.Sprintf(format, args...)}
}

// startError returns the Error for a helper that cannot be started. A host that is out of
// processes, memory or descriptors may have some later.
func (u User) startError(err error) error {
	short := slices.ContainsFunc([]error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE}, func(lack error) bool { return errors.Is(err, lack) })
	return &Error{User: u.displayName(), Text: fmt.Sprintf("nfsrdma-gss cannot be started: %v", err), transient: short}
}

// isTransient reports whether another attempt may succeed without any change by the user.
func (e *Error) isTransient() bool { return e.transient || e.Reason == wire.NoKDC }

// Kerberos error codes (RFC 4120, Section 7.5.9) in a rejection's minor status: nfsrdmad
// sends them unchanged, servers with MIT's library add them to the base of its table. The
// status is server-specific, so that it may have another meaning.
const (
	mitErrorBase = -1765328384
	codeExpiry   = 32 // KRB_AP_ERR_TKT_EXPIRED
	codeNotYet   = 33 // KRB_AP_ERR_TKT_NYV
	codeSkew     = 37 // KRB_AP_ERR_SKEW
	codeKey      = 44 // KRB_AP_ERR_BADKEYVER
	codeNoKey    = 45 // KRB_AP_ERR_NOKEY
)

// rejectionError returns the Error for a context that the server has rejected. The reply
// has no token that could contain more details (RFC 2203, Section 5.2.3.1).
func (u User) rejectionError(e *gss.Error) error {
	code := int64(int32(e.Minor))
	if code < 0 {
		code -= mitErrorBase
	}
	failure := &Error{User: u.displayName(), Text: fmt.Sprintf("the server refused the Kerberos context (%v, minor status %d): its log has the reason", e.Major, e.Minor)}
	switch code {
	case codeExpiry:
		failure.Reason, failure.Text = wire.Expired, "the server says that your ticket has expired: run kinit, and compare the clocks"
	case codeNotYet:
		failure.Reason, failure.Text = wire.Clock, "the server says that your ticket is not valid yet: set the clocks of server and KDC"
	case codeSkew:
		failure.Reason, failure.Text = wire.Clock, "the clocks of client and server differ by more than 5 minutes: set them"
	case codeKey, codeNoKey:
		failure.Text = "the server's keytab does not have the key of your ticket: run kinit again; if that does not help, add the key there with ktadd"
	}
	return failure
}
