package tickets

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/gss"
	"github.com/nfsrdma/nfsrdma/tickets/wire"
)

// An Error says why a user has no context.
type Error struct {
	User   string // the name, or "user 1001"
	Reason wire.Reason
	Words  string    // the cause and the remedy
	Ended  time.Time // end of the ticket, if Reason is wire.Expired
	passes bool      // another attempt may succeed
}

// Error returns the user and the words.
func (e *Error) Error() string { return e.User + ": " + e.Words }

// Errno returns what a program gets (nfs(5), as of Linux): EKEYEXPIRED if the
// user's ticket has expired, else EACCES.
func (e *Error) Errno() unix.Errno {
	if e.Reason == wire.Expired {
		return unix.EKEYEXPIRED
	}
	return unix.EACCES
}

// NoTicket reports whether this host has no ticket of the user, not even an expired
// one. Other users may have theirs.
func (e *Error) NoTicket() bool { return e.Reason == wire.NoTicket }

// Is reports whether target is e's Errno.
func (e *Error) Is(target error) bool { return target == e.Errno() }

// fail returns an Error without a reason that programs could tell.
func (u User) fail(format string, args ...any) error {
	return &Error{User: u.name(), Words: fmt.Sprintf(format, args...)}
}

// unstarted returns the Error for a helper that cannot be started. A host that is out of
// processes, memory or descriptors may have some later.
func (u User) unstarted(err error) error {
	short := slices.ContainsFunc([]error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE}, func(lack error) bool { return errors.Is(err, lack) })
	return &Error{User: u.name(), Words: fmt.Sprintf("nfsrdma-gss cannot be started: %v", err), passes: short}
}

// passing reports whether another attempt may succeed, with nothing changed by the user.
func (e *Error) passing() bool { return e.passes || e.Reason == wire.NoKDC }

// Errors of Kerberos (RFC 4120, Section 7.5.9) in the minor status of a refusal:
// nfsrdmad sends them as they are, servers with MIT's library from the start of its
// table. The status is the server's own, so that another may mean nothing.
const (
	table      = -1765328384
	codeExpiry = 32 // KRB_AP_ERR_TKT_EXPIRED
	codeNotYet = 33 // KRB_AP_ERR_TKT_NYV
	codeSkew   = 37 // KRB_AP_ERR_SKEW
	codeKey    = 44 // KRB_AP_ERR_BADKEYVER
	codeNoKey  = 45 // KRB_AP_ERR_NOKEY
)

// refused returns the Error for a context that the server has refused. The reply
// has no token that could say more (RFC 2203, Section 5.2.3.1).
func (u User) refused(e *gss.Error) error {
	code := int64(int32(e.Minor))
	if code < 0 {
		code -= table
	}
	failure := &Error{User: u.name(), Words: fmt.Sprintf("the server refused the Kerberos context (%v, minor status %d): its log has the reason", e.Major, e.Minor)}
	switch code {
	case codeExpiry:
		failure.Reason, failure.Words = wire.Expired, "the server says that your ticket has expired: run kinit, and compare the clocks"
	case codeNotYet:
		failure.Reason, failure.Words = wire.Clock, "the server says that your ticket is not valid yet: set the clocks of server and KDC"
	case codeSkew:
		failure.Reason, failure.Words = wire.Clock, "the clocks of client and server differ by more than 5 minutes: set them"
	case codeKey, codeNoKey:
		failure.Words = "the server's keytab does not have the key of your ticket: run kinit again; if that does not help, add the key there with ktadd"
	}
	return failure
}
