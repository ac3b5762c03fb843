package nfs4server

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// required are the operations that RFC 8881, Section 17, requires from every server. Below it
// are recommended and optional ones that this server has.
var required = []nfs4.Op{
	nfs4.OpAccess, nfs4.OpBackchannelCtl, nfs4.OpBindConnToSession, nfs4.OpClose, nfs4.OpCommit, nfs4.OpCreate,
	nfs4.OpCreateSession, nfs4.OpDestroyClientID, nfs4.OpDestroySession, nfs4.OpExchangeID, nfs4.OpFreeStateID,
	nfs4.OpGetAttr, nfs4.OpGetFH, nfs4.OpLock, nfs4.OpLockT, nfs4.OpLockU, nfs4.OpLookup, nfs4.OpLookupP, nfs4.OpNVerify, nfs4.OpOpen, nfs4.OpOpenDowngrade,
	nfs4.OpPutFH, nfs4.OpPutPubFH, nfs4.OpPutRootFH, nfs4.OpRead, nfs4.OpReadDir, nfs4.OpReclaimComplete,
	nfs4.OpRemove, nfs4.OpRename, nfs4.OpRestoreFH, nfs4.OpSaveFH, nfs4.OpSecInfo, nfs4.OpSequence, nfs4.OpSetAttr,
	nfs4.OpSetSSV, nfs4.OpTestStateID, nfs4.OpVerify, nfs4.OpWrite,

	nfs4.OpDelegReturn,                                 // R8881-17-4, because OPEN gives delegations
	nfs4.OpSecInfoNoName, nfs4.OpLink, nfs4.OpReadLink, // R8881-17-2, R8881-17-3
}

// notOffered are the optional RFC 8881 operations that this server does not have: those for
// directory delegations, pNFS, and named attributes.
var notOffered = []nfs4.Op{
	nfs4.OpDelegPurge, nfs4.OpGetDirDelegation, nfs4.OpWantDelegation, // R8881-10.4.7-1, R8881-10.9-1
	nfs4.OpGetDeviceInfo, nfs4.OpGetDeviceList, nfs4.OpLayoutCommit, nfs4.OpLayoutGet, nfs4.OpLayoutReturn, // R8881-13.1-2, R8881-18.40.3-1
	nfs4.OpOpenAttr, // R8881-18.17.4-1
}

// TestOffered checks which operations are there (R8881-17-1 to -4,
// R8881-15.1.1.5-1, R8881-18.39.3-1, R8881-18.49.3-1).
//
// R8881-16.2.1-1, R8881-17-4, R8881-18.5.3-1, R7862-13-2.
func TestOffered(t *testing.T) {
	for minor := uint32(1); minor <= 2; minor++ {
		g := newTestServer(t)
		g.minor = minor
		g.connectClient()
		for _, op := range required {
			save := step{nfs4.OpSaveFH, &void, newStatusRes()}
			st, n := g.sendSteps(putRootStep(), save, step{op, cutArgs(nil), discardedResults{}})
			assert.Equal(t, 3, n, op)
			assert.NotEqual(t, nfs4.ErrNotSupp, st, "%s in minor version %d", op, minor)
		}
		for _, op := range notOffered {
			st, n := g.sendSteps(putRootStep(), step{op, cutArgs(make([]byte, 200)), newStatusRes()})
			assert.Equal(t, 2, n, op)
			assert.Equal(t, nfs4.ErrNotSupp, st, "%s in minor version %d", op, minor)
		}
	}
}

// discardedResults is memory for results that are ignored.
type discardedResults struct{ cutArgs }

func (discardedResults) Decode(r *xdr.Reader) { r.Fixed(r.Left()) }

// TestClaimsOfDelegations checks that no OPEN relies on a delegation that the client does not
// have, or on one from an earlier client, because none outlives its client (R8881-18.5.3-1).
func TestClaimsOfDelegations(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	for _, claim := range []nfs4.Claim{nfs4.ClaimDelegateCur, nfs4.ClaimDelegatePrev, nfs4.ClaimDelegCurFH, nfs4.ClaimDelegPrevFH} {
		a := openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate)
		a.Claim = claim
		at := []step{putRootStep(), lookupStep("x")}
		if claim == nfs4.ClaimDelegCurFH || claim == nfs4.ClaimDelegPrevFH {
			at = []step{putStep(fh)}
		}
		want := nfs4.ErrNotSupp
		if claim == nfs4.ClaimDelegateCur || claim == nfs4.ClaimDelegCurFH {
			want = nfs4.ErrBadStateID
		}
		st, _ := g.sendSteps(append(at, step{nfs4.OpOpen, a, new(nfs4.OpenRes)})...)
		assert.Equal(t, want, st, claim)
	}
}

// TestWithoutSequence sends every operation first and without SEQUENCE
// (R8881-15.1.3.5-1, R8881-18.46.3-1).
//
// R8881-18.33.3-1.
func TestWithoutSequence(t *testing.T) {
	g := newTestServer(t).connectClient()
	alone := "EXCHANGE_ID CREATE_SESSION DESTROY_SESSION BIND_CONN_TO_SESSION DESTROY_CLIENTID SEQUENCE"
	for op := nfs4.OpAccess; op < nfs4.NumOp; op++ {
		if strings.Contains(alone, op.String()) || op >= nfs4.OpAllocate {
			continue
		}
		first, last, _ := op.Minors()
		if g.minor < first || g.minor > last {
			continue
		}
		st, n := g.sendRaw(step{op, cutArgs(make([]byte, 200)), newStatusRes()})
		assert.Equal(t, 1, n)
		if operations[op].execute == nil {
			assert.Equal(t, nfs4.ErrNotSupp, st, op)
			continue
		}
		assert.Equal(t, nfs4.ErrOpNotInSession, st, op)
	}
	st, n := g.sendRaw(step{200, &void, newStatusRes()}, putRootStep())
	assert.Equal(t, nfs4.ErrOpIllegal, st)
	assert.Equal(t, 1, n)
}

// TestMinorVersions checks that a minor version which the server does not have
// is refused before anything else (R8881-15.1.3.2-1, R8881-16.2.4-1).
func TestMinorVersions(t *testing.T) {
	for _, minor := range []uint32{3, 99, ^uint32(0)} {
		g := newTestServer(t)
		g.minor = minor
		st, n := g.sendRaw(step{200, cutArgs([]byte{1, 2, 3, 4}), newStatusRes()})
		assert.Equal(t, nfs4.ErrMinorVersMismatch, st, minor)
		assert.Zero(t, n)
	}
}

// TestTags checks that the tag comes back with any status, also if it is not
// text (R8881-16.2.3-2, R8881-16.2.3-3).
func TestTags(t *testing.T) {
	g := newTestServer(t).connectClient()
	for _, tag := range []string{"", "a", strings.Repeat("t", 1000), "\xff\xfe\x00"} {
		g.tag = tag
		st, _ := g.sendSteps(putRootStep())
		assert.Equal(t, nfs4.OK, st)
		st, _ = g.sendSteps(putRootStep(), lookupStep("none"))
		assert.Equal(t, nfs4.ErrNoEnt, st)
		g.minor = 9
		st, _ = g.sendRaw(putRootStep())
		assert.Equal(t, nfs4.ErrMinorVersMismatch, st)
		g.minor = 2
	}
}

// TestTagBound checks that a COMPOUND whose tag would make a long reply cannot be
// decoded, whether or not it has a session.
func TestTagBound(t *testing.T) {
	g := newTestServer(t)
	g.tag = strings.Repeat("t", nfs4.OpaqueLimit+1)
	for _, minor := range []uint32{2, 9} {
		g.minor = minor
		call := oncrpc.Call{
			Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: g.cred, Peer: g.peer,
			Args: xdr.NewReader(g.encodeCompound(putRootStep())), MaxReply: 4096,
		}
		var rep oncrpc.Reply
		assert.ErrorIs(t, g.s.ServeRPC(t.Context(), &call, &rep), xdr.ErrLong)
		assert.Empty(t, rep.Head)
	}
}

// TestHandlesAreUnset checks that each COMPOUND begins without filehandles, and
// that an operation which fails leaves them (R8881-16.2.3.1.1-1,
// R8881-18.8.3-1, R8881-18.27.3-1, R8881-18.28.3-1).
func TestHandlesAreUnset(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fhs := g.makeObjects()
	save, restore := step{nfs4.OpSaveFH, &void, newStatusRes()}, step{nfs4.OpRestoreFH, &void, newStatusRes()}
	var fh nfs4.HandleRes
	get := step{nfs4.OpGetFH, &void, &fh}
	st, _ := g.sendSteps(putStep(fhs["file"]), save)
	require.Equal(t, nfs4.OK, st)
	for _, s := range []step{restore, save, get} {
		st, _ = g.sendSteps(s)
		assert.Equal(t, nfs4.ErrNoFileHandle, st, s.op)
	}
	st, _ = g.sendSteps(putRootStep(), restore)
	assert.Equal(t, nfs4.ErrNoFileHandle, st)
	for name, want := range fhs {
		st, _ = g.sendSteps(putStep(want), get)
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, want, fh.Object, name)
	}
	st, _ = g.sendSteps(putStep(fhs["dir"]), save, putStep(fhs["file"]), restore, get)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, fhs["dir"], fh.Object)
}

// TestHandlesGone checks that a filehandle is looked at only by an operation
// that uses it (R8881-15.1.2-1, R8881-18.19.3-1).
func TestHandlesGone(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	save, restore := step{nfs4.OpSaveFH, &void, newStatusRes()}, step{nfs4.OpRestoreFH, &void, newStatusRes()}
	attr := step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrType)}, new(nfs4.GetAttrRes)}
	remove := step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)}
	st, n := g.sendSteps(putStep(fh), save, putRootStep(), lookupStep("x"), remove, attr, restore, attr)
	assert.Equal(t, nfs4.ErrStale, st)
	assert.Equal(t, 8, n)
	st, _ = g.sendSteps(putStep(fh), attr)
	assert.Equal(t, nfs4.ErrStale, st)
}

// TestForgedHandles puts handles that the server has not made
// (R8881-15.1.2.1-1, R8881-18.19.3-1).
func TestForgedHandles(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	for _, n := range []int{0, 1, 2, len(fh) - 1, len(fh), len(fh) + 1, 64, 128} {
		for _, fill := range []byte{0, 1, 2, 3, 0x5a, 0xff} {
			bad := make(nfs4.FH, n)
			for i := range bad {
				bad[i] = fill
			}
			st, _ := g.sendSteps(putStep(bad))
			if fill == fh[0] || fill == pseudoVersion { // it may be from before the server's key was lost
				assert.Contains(t, []nfs4.Status{nfs4.ErrBadHandle, nfs4.ErrStale}, st, "%d bytes of %#x", n, fill)
				continue
			}
			assert.Equal(t, nfs4.ErrBadHandle, st, "%d bytes of %#x", n, fill)
		}
	}
	st, _ := g.sendSteps(step{nfs4.OpPutFH, cutArgs([]byte{0, 0, 0, 129}), newStatusRes()})
	assert.Equal(t, nfs4.ErrBadXDR, st)
}

// TestStatuses checks that no file system error is sent as its own number (R8881-15.1.4-1,
// R8881-15.1.1.6-1).
func TestStatuses(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.EEXIST: "EXIST", syscall.ENOENT: "NOENT", syscall.ENOTEMPTY: "NOTEMPTY", syscall.EXDEV: "XDEV",
		syscall.EMLINK: "MLINK", syscall.EROFS: "ROFS", syscall.ENOSPC: "NOSPC", syscall.EDQUOT: "DQUOT",
		syscall.EFBIG: "FBIG", syscall.EIO: "IO", syscall.EACCES: "ACCESS", syscall.EPERM: "PERM",
		syscall.ENAMETOOLONG: "NAMETOOLONG", syscall.ESTALE: "STALE", syscall.ELOOP: "SYMLINK", syscall.ENXIO: "IO",
		syscall.ENOTDIR: "NOTDIR", syscall.EISDIR: "ISDIR", syscall.EINVAL: "INVAL", syscall.EAGAIN: "DELAY",
	} {
		st, known := statusOf(errno)
		assert.True(t, known, errno)
		assert.Equal(t, "NFS4ERR_"+want, st.String(), errno)
	}
	for errno := syscall.Errno(1); errno < 200; errno++ {
		st, _ := statusOf(errno)
		assert.NotContains(t, st.String(), "(", errno)
		assert.NotContains(t, []nfs4.Status{nfs4.OK, nfs4.ErrNXIO, nfs4.ErrResource}, st, errno)
	}
	st, known := statusOf(syscall.Errno(199))
	assert.False(t, known, "the log says it")
	assert.Equal(t, nfs4.ErrIO, st)
}
