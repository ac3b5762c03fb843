package nfs4server

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4/nfs4test"
)

// isPermittedIn is permitted in a minor version.
func isPermittedIn(minor uint32, op nfs4.Op, status nfs4.Status) bool {
	if minor == nfs4.Minor0 {
		return nfs4test.Listed40(op, status)
	}
	return isPermitted(op, status)
}

// isPermitted reports whether an operation may end with a status.
func isPermitted(op nfs4.Op, status nfs4.Status) bool {
	offered := op == nfs4.OpIllegal || op == nfs4.OpSequence || op < nfs4.NumOp && operations[op].execute != nil
	if !offered && status != nfs4.OK {
		return status == nfs4.ErrNotSupp || status == nfs4.ErrRetryUncachedRep
	}
	return nfs4test.Listed(op, status)
}

// TestListedErrors checks the check which every COMPOUND of these tests
// passes. (R8881-15.2-1 to -7, R8881-15.1.5-1, R8881-15.1.15.1-1,
// R8881-15.1.16-1)
//
// R8881-15.1.2.1-1, R8881-15.2-2, R8881-15.2-3, R8881-15.2-4, R8881-15.2-5,
// R8881-15.2-6, R8881-15.2-7.
//
// R7862-11.2-1.
func TestListedErrors(t *testing.T) {
	for _, tt := range []struct {
		op     nfs4.Op
		status nfs4.Status
		want   bool
	}{
		{nfs4.OpGetFH, nfs4.ErrStale, true},
		{nfs4.OpGetFH, nfs4.ErrDelay, false},
		{nfs4.OpGetAttr, nfs4.ErrAttrNotSupp, false},
		{nfs4.OpSaveFH, nfs4.ErrDelay, false},
		{nfs4.OpSaveFH, nfs4.ErrWrongSec, false},
		{nfs4.OpRestoreFH, nfs4.ErrWrongSec, true},
		{nfs4.OpRestoreFH, nfs4.ErrRestoreFH, false},
		{nfs4.OpPutRootFH, nfs4.ErrStale, false},
		{nfs4.OpRemove, nfs4.ErrWrongSec, false},
		{nfs4.OpClose, nfs4.ErrGrace, false},
		{nfs4.OpTestStateID, nfs4.ErrBadStateID, false},
		{nfs4.OpFreeStateID, nfs4.ErrLocksHeld, true},
		{nfs4.OpCreateSession, nfs4.ErrGrace, false},
		{nfs4.OpSeek, nfs4.ErrNotSupp, true},
		{nfs4.OpSeek, nfs4.ErrUnionNotSupp, true},
		{nfs4.OpCopy, nfs4.ErrXDev, false},
		{nfs4.OpClone, nfs4.ErrXDev, true},
		{nfs4.OpClone, nfs4.ErrLocked, false},
		{nfs4.OpCopyNotify, nfs4.ErrNotSupp, true},
	} {
		assert.Equal(t, tt.want, isPermitted(tt.op, tt.status), "%s %s", tt.op, tt.status)
	}
	for op := nfs4.OpAccess; op < nfs4.NumOp; op++ {
		for _, never := range []nfs4.Status{nfs4.ErrBadSeqID, nfs4.ErrLeaseMoved, nfs4.ErrNXIO, nfs4.ErrRestoreFH, nfs4.ErrStaleStateID, nfs4.ErrResource} {
			beyond := op == nfs4.OpSeek && never == nfs4.ErrNXIO // RFC 7862, Section 15.11.3
			assert.Equal(t, beyond, isPermitted(op, never), "%s %s", op, never)
		}
	}
}
