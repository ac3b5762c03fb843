package nlmserver

import (
	"context"
	"math"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestLocks: RNLM-LOCK-1, RNLM-LOCK-4, RNLM-TEST-1, RNLM-UNLOCK-1, RNLM-UNLOCK-2, RNLM-OWNER-1,
// RNLM-OWNER-2, RNLM-6.1.4-4, RNLM-6.1.4-5, RNLM-XDR-1.
func TestLocks(t *testing.T) {
	g := newTestServer(t)
	a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
	assert.Equal(t, nlm4.Granted, a.tryLock(true, 10, 10))
	assert.Equal(t, nlm4.Granted, a.tryLock(true, 10, 10), "a repeated LOCK")
	assert.Equal(t, nlm4.Denied, b.tryLock(false, 19, 1))
	assert.Equal(t, nlm4.Granted, b.tryLock(false, 20, 1))
	assert.Equal(t, nlm4.Denied, a.otherProcess(2).tryLock(true, 0, 0), "another process of the same host")
	status, holder := b.testLock(true, 0, 0)
	assert.Equal(t, nlm4.Denied, status)
	assert.Equal(t, nlm4.Holder{Exclusive: true, SVID: 1, Owner: []byte("1@a"), Offset: 10, Length: 10}, holder)
	status, _ = a.testLock(true, 10, 10)
	assert.Equal(t, nlm4.Granted, status, "TEST by the holder")
	assert.Equal(t, 2, g.lockCount(), "TEST locks nothing")
	assert.Equal(t, nlm4.Granted, a.unlockRange(14, 2))
	assert.Equal(t, nlm4.Granted, b.tryLock(true, 14, 2), "the midst of a lock")
	assert.Equal(t, nlm4.Denied, b.tryLock(true, 13, 1))
	assert.Equal(t, nlm4.Granted, a.tryLock(false, 0, 12), "a downgrade, and more bytes")
	assert.Equal(t, nlm4.Granted, b.tryLock(false, 11, 1))
	assert.Equal(t, nlm4.Denied, b.tryLock(false, 12, 1))
	assert.Equal(t, nlm4.Granted, a.unlockRange(500, 10), "of what is not locked")
	assert.Equal(t, nlm4.Granted, a.tryLock(true, 1<<40, 0))
	status, holder = b.testLock(false, 1<<62, 1)
	assert.Equal(t, nlm4.Denied, status, "length 0 is to the end")
	assert.Zero(t, holder.Length)
	for _, c := range []*testClient{a, b} {
		assert.Equal(t, nlm4.Granted, c.unlockRange(0, 0))
	}
	assert.Zero(t, g.lockCount())
}

// TestWire: RNLM-6.1.1-1, RNLM-6.1.2-1, RNLM-6.2-1, RNLM-6.2-2, RNLM-XDR-6, RNLM-ASYNC-3, RNLM-LINUX-1: who may call
// what, and how.
func TestWire(t *testing.T) {
	g := newTestServer(t)
	c := g.newClient("192.0.2.1", "a")
	reply := func(prog, vers, proc uint32, args []byte) error {
		r := xdr.NewReader(append([]byte{0, 0, 0, 1}, c.callRaw(prog, vers, proc, args)...))
		return oncrpc.ReadReply(&r, 1)
	}
	lock := c.lockArgs(false, true, 0, 1).AppendTo(nil, 4)
	for _, vers := range []uint32{0, 2, 5} {
		assert.Equal(t, &oncrpc.ReplyError{Stat: rpcmsg.ProgMismatch, Low: 1, High: 4}, reply(nlm4.Program, vers, nlm4.ProcNull, nil))
	}
	for proc := range uint32(30) {
		if !nlm4.Defined(4, proc) {
			assert.ErrorIs(t, reply(nlm4.Program, 4, proc, nil), oncrpc.ErrProcUnavail, proc)
		}
	}
	assert.ErrorIs(t, reply(nlm4.Program, 1, nlm4.ProcShare, nil), oncrpc.ErrProcUnavail)
	assert.NoError(t, reply(nlm4.Program, 4, nlm4.ProcLockRes, (&nlm4.Res{}).AppendTo(nil, 4)), "results for which nobody waits")
	assert.NoError(t, reply(nlm4.Program, 4, nlm4.ProcGrantedRes, (&nlm4.Res{Cookie: make([]byte, 8)}).AppendTo(nil, 4)))
	assert.ErrorIs(t, reply(nlm4.Program, 4, nlm4.ProcLock, lock[:20]), oncrpc.ErrGarbageArgs)
	c.lock.Caller = []byte(strings.Repeat("x", nlm4.CallerLen+1))
	assert.ErrorIs(t, reply(nlm4.Program, 4, nlm4.ProcLock, c.lockArgs(false, true, 0, 1).AppendTo(nil, 4)), oncrpc.ErrGarbageArgs)
	c.lock.Caller = []byte("a")
	assert.Equal(t, nlm4.Denied, c.callForStatus(nlm4.ProcGranted, &nlm4.TestArgs{Cookie: cookie, Lock: c.lock}), "a grant that nobody waits for")
	c.cred = rpcmsg.Cred{}
	assert.NoError(t, reply(nlm4.Program, 4, nlm4.ProcNull, nil))
	for proc := nlm4.ProcTest; proc < nlm4.NumProc; proc++ {
		if nlm4.Defined(4, proc) && procedureByNumber[proc] != nil && proc != nlm4.ProcGranted && proc != nlm4.ProcGrantedRes {
			assert.Equal(t, rpcmsg.AuthTooWeak, reply(nlm4.Program, 4, proc, lock), nlm4.ProcName(proc))
		}
	}
	assert.Zero(t, g.lockCount())
}

// TestCookies: RNLM-XDR-1: a cookie comes back as it was.
func TestCookies(t *testing.T) {
	c := newTestServer(t).newClient("192.0.2.1", "a")
	for _, n := range []int{0, 1, 4, 8, 32, 1024} {
		a := c.lockArgs(false, false, 0, 1)
		a.Cookie = make([]byte, n)
		for i := range a.Cookie {
			a.Cookie[i] = byte(i + 1)
		}
		r := c.mustCall(nlm4.ProcLock, a)
		var res nlm4.Res
		res.Decode(&r, 4)
		assert.Equal(t, string(a.Cookie), string(res.Cookie))
	}
}

// TestRanges: RNLM-6.3.1-1, RNLM-UNLOCK-1: the greatest offsets, and those of 32 bits of the old versions.
func TestRanges(t *testing.T) {
	g := newTestServer(t)
	a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
	assert.Equal(t, nlm4.TooBig, a.tryLock(true, 1<<63, 1))
	assert.Equal(t, nlm4.TooBig, a.tryLock(true, 1<<63-1, 2))
	assert.Equal(t, nlm4.TooBig, a.tryLock(true, 1, math.MaxUint64))
	assert.Equal(t, nlm4.Granted, a.unlockRange(1<<63, 1))
	assert.Equal(t, nlm4.Granted, a.tryLock(true, 1<<63-1, 1))
	status, holder := b.testLock(true, 0, 0)
	assert.Equal(t, nlm4.Denied, status)
	assert.Equal(t, nlm4.Holder{Exclusive: true, SVID: 1, Owner: []byte("1@a"), Offset: 1<<63 - 1}, holder)
	b.vers = nlm4.Version3
	status, holder = b.testLock(true, 0, 0)
	assert.Equal(t, nlm4.Denied, status)
	assert.Equal(t, uint64(math.MaxUint32), holder.Offset)
	assert.Equal(t, nlm4.Granted, a.unlockRange(5, math.MaxUint64))
	assert.Zero(t, g.lockCount())
	for _, vers := range []uint32{nlm4.Version1, nlm4.Version3} {
		b.vers = vers
		assert.Equal(t, nlm4.Granted, b.tryLock(true, math.MaxUint32, 0))
		assert.Equal(t, nlm4.Denied, a.tryLock(true, 1<<40, 1))
		assert.Equal(t, nlm4.Granted, b.unlockRange(0, 0))
	}
}

// TestFiles: RNLM-6.1.4-3, RNLM-6.1.4-7, RNLM-LOCK-8, RNLM-6.1.4-1: which files a caller may lock.
func TestFiles(t *testing.T) {
	var readOnly bool
	g := newTestServer(t, func(_ *nfs4state.Config, _ *Config, c *exportset.Config) {
		c.Exports = append(c.Exports, exportset.Export{Path: "/ro", FS: c.Exports[0].FS, Clients: exports.Everyone(exports.Options{ReadOnly: true})})
	})
	fs := g.realm.Snapshot().List()[0].FS
	secret := g.makeFile(fs, "secret", 0)
	c := g.newClient("192.0.2.1", "a")
	c.lock.Handle = g.fileHandle(secret)
	assert.Equal(t, nlm4.Granted, c.tryLock(true, 0, 1), "the owner may lock a file of any mode")
	assert.Equal(t, nlm4.Granted, c.unlockRange(0, 1))
	c.cred.UID = 1001
	assert.Equal(t, nlm4.Failed, c.tryLock(false, 0, 1))
	c.lock.Handle = g.fh
	assert.Equal(t, nlm4.Granted, c.tryLock(false, 0, 1), "a file that others may read")
	assert.Equal(t, nlm4.Failed, c.tryLock(true, 0, 1))
	root := fs.Root()
	c.lock.Handle = g.realm.AppendHandle(nil, g.realm.Snapshot().List()[0], &root)
	assert.Equal(t, nlm4.Failed, c.tryLock(false, 0, 1), "a directory")
	c.lock.Handle = append([]byte(nil), g.fh...)
	c.lock.Handle[len(c.lock.Handle)-1]++
	assert.Equal(t, nlm4.StaleFH, c.tryLock(false, 0, 1), "a forged handle")
	c.lock.Handle = []byte("no handle")
	assert.Equal(t, nlm4.StaleFH, c.tryLock(false, 0, 1))
	for _, e := range g.realm.Snapshot().List() {
		if h, _ := vfs.NewHandle(secret); e.Path == "/ro" {
			c.cred.UID, readOnly = 1000, true
			c.lock.Handle = g.realm.AppendHandle(nil, e, &h)
			assert.Equal(t, nlm4.ReadOnly, c.tryLock(true, 0, 1))
			assert.Equal(t, nlm4.Granted, c.tryLock(false, 0, 1))
		}
	}
	assert.True(t, readOnly)
}

// TestRemoved: RNLM-LINUX-6, RNLM-6.1.4-7: a file that has been removed can be unlocked, and not locked.
func TestRemoved(t *testing.T) {
	g := newTestServer(t)
	fs := g.realm.Snapshot().List()[0].FS
	c := g.newClient("192.0.2.1", "a")
	assert.Equal(t, nlm4.Granted, c.tryLock(true, 0, 10))
	_, err := fs.Remove(context.Background(), &vfs.Cred{}, fs.Root(), "f")
	require.NoError(t, err)
	assert.Equal(t, nlm4.StaleFH, c.tryLock(true, 20, 1))
	assert.Equal(t, nlm4.Granted, c.unlockRange(0, 0))
	assert.Zero(t, g.lockCount())
}

// TestOtherHosts: RNLM-OWNER-3, RNLM-FREE-1: a host that takes the name of another can do nothing with its locks.
func TestOtherHosts(t *testing.T) {
	g := newTestServer(t)
	a, c := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.3", "c")
	forger := g.newClient("192.0.2.2", "a")
	assert.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
	assert.Equal(t, nlm4.Blocked, a.otherProcess(2).waitLock(true, 0, 1))
	assert.Equal(t, nlm4.Granted, forger.unlockRange(0, 1))
	assert.Equal(t, nlm4.Denied, forger.otherProcess(2).cancelLock(true, 0, 1))
	free := &nlm4.Notify{Name: []byte("a"), State: 5}
	forger.mustCall(nlm4.ProcFreeAll, free)
	forger.sendNotify("a", 5)
	assert.Equal(t, nlm4.Denied, c.tryLock(true, 0, 1))
	assert.Equal(t, nlm4.Granted, a.otherProcess(2).cancelLock(true, 0, 1))
	assert.Equal(t, nlm4.Granted, c.tryLock(true, 5, 1))
	assert.Equal(t, nlm4.Blocked, a.otherProcess(2).waitLock(true, 5, 1))
	r := a.mustCall(nlm4.ProcFreeAll, free)
	assert.NoError(t, r.Done(), "a void reply")
	assert.Equal(t, 1, g.lockCount(), "the locks of another host stay")
	assert.False(t, g.state.HasLockWaiters())
	assert.Equal(t, nlm4.Granted, c.tryLock(true, 0, 1))
}

// TestPorts: RNLM-OWNER-3: users of a client's host cannot release locks on a secure export, on
// which they can lock nothing.
func TestPorts(t *testing.T) {
	g := newTestServer(t, func(_ *nfs4state.Config, _ *Config, c *exportset.Config) {
		c.Exports[0].Clients = exports.Everyone(exports.Options{})
	})
	a, other := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "other")
	user := g.newClient("192.0.2.1", "a")
	user.peer.Addr = netip.MustParseAddrPort("192.0.2.1:1024")
	assert.Equal(t, nlm4.Failed, user.tryLock(true, 0, 1))
	require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
	require.Equal(t, nlm4.Granted, a.shareFile(nlm4.ProcShare, nlm4.Read, nlm4.Write, false))
	require.Equal(t, nlm4.Granted, other.tryLock(true, 5, 1))
	require.Equal(t, nlm4.Blocked, a.waitLock(true, 5, 1))
	assert.Equal(t, nlm4.Failed, user.unlockRange(0, 1))
	assert.Equal(t, nlm4.Failed, user.shareFile(nlm4.ProcUnshare, 0, 0, false))
	assert.Equal(t, nlm4.Denied, user.cancelLock(true, 5, 1))
	assert.Equal(t, nlm4.Denied, other.tryLock(true, 0, 1))
	assert.Equal(t, nlm4.Denied, other.shareFile(nlm4.ProcShare, nlm4.Write, 0, false))
	assert.Equal(t, nlm4.Granted, a.cancelLock(true, 5, 1))
	assert.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
	assert.Equal(t, nlm4.Granted, a.shareFile(nlm4.ProcUnshare, 0, 0, false))
	assert.Equal(t, nlm4.Granted, other.shareFile(nlm4.ProcShare, nlm4.Write, 0, false))
}

// TestShares: RNLM-SHARE-1, RNLM-SHARE-2, RNLM-6.1.4-6, RNLM-XDR-5: all pairs of modes of two owners.
func TestShares(t *testing.T) {
	g := newTestServer(t)
	a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
	const both = nlm4.Read | nlm4.Write
	for m := range nlm4.ShareMode(16) {
		for n := range nlm4.ShareMode(16) {
			access1, deny1, access2, deny2 := m&both, m>>2, n&both, n>>2
			expected := nlm4.Granted
			if access1&deny2 != 0 || access2&deny1 != 0 {
				expected = nlm4.Denied
			}
			require.Equal(t, nlm4.Granted, a.shareFile(nlm4.ProcShare, access1, deny1, false))
			require.Equal(t, expected, b.shareFile(nlm4.ProcShare, access2, deny2, false), "%d %d", m, n)
			require.Equal(t, nlm4.Granted, a.shareFile(nlm4.ProcShare, 0, 0, false), "a repeat replaces")
			require.Equal(t, nlm4.Granted, b.shareFile(nlm4.ProcShare, access2, deny2, false))
			for _, c := range []*testClient{a, b, b} {
				require.Equal(t, nlm4.Granted, c.shareFile(nlm4.ProcUnshare, 0, 0, false))
			}
		}
	}
	list, _ := g.state.Clients(10)
	for _, c := range list {
		assert.Zero(t, c.Opens)
	}
}

// TestNMLock: RNLM-NMLOCK-1: NM_LOCK never waits.
func TestNMLock(t *testing.T) {
	g := newTestServer(t)
	a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
	assert.Equal(t, nlm4.Granted, a.callForStatus(nlm4.ProcNMLock, a.lockArgs(false, true, 0, 1)))
	assert.Equal(t, nlm4.Denied, b.callForStatus(nlm4.ProcNMLock, b.lockArgs(true, true, 0, 1)))
	assert.False(t, g.state.HasLockWaiters())
}

// TestMessages: RNLM-6.2-3, RNLM-ASYNC-1, RNLM-ASYNC-2, RNLM-ASYNC-4, RNLM-LINUX-5: procedures that
// return results in calls.
func TestMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		h := g.hostAt("192.0.2.2")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
		assert.Empty(t, g.hostAt("192.0.2.1").results, "LOCK has its reply alone")
		for _, tt := range []struct {
			proc   uint32
			args   message
			status nlm4.Status
		}{
			{nlm4.ProcTestMsg, &nlm4.TestArgs{Cookie: cookie, Lock: b.lockOf(5, 1)}, nlm4.Granted},
			{nlm4.ProcUnlockMsg, &nlm4.UnlockArgs{Cookie: cookie, Lock: b.lockOf(0, 0)}, nlm4.Granted},
			{nlm4.ProcLockMsg, b.lockArgs(false, true, 0, 1), nlm4.Denied},
			{nlm4.ProcCancelMsg, &nlm4.CancelArgs{Cookie: cookie, Lock: b.lockOf(0, 1)}, nlm4.Denied},
			{nlm4.ProcGrantedMsg, &nlm4.TestArgs{Cookie: cookie, Lock: b.lockOf(0, 1)}, nlm4.Denied},
			{nlm4.ProcLockMsg, b.lockArgs(true, true, 0, 1), nlm4.Blocked},
		} {
			r := b.mustCall(tt.proc, tt.args)
			require.NoError(t, r.Done(), "a void reply")
			synctest.Wait()
			require.Len(t, h.results, 1)
			assert.Equal(t, tt.proc+5, h.results[0].proc)
			got := xdr.NewReader(h.results[0].args)
			var res nlm4.Res
			res.Decode(&got, 4)
			require.NoError(t, got.Done())
			assert.Equal(t, nlm4.Res{Cookie: cookie, Status: tt.status}, res)
			h.results = nil
		}
		require.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
		synctest.Wait()
		require.Len(t, h.results, 1)
		assert.Equal(t, nlm4.ProcGrantedMsg, h.results[0].proc)
		got := xdr.NewReader(h.results[0].args)
		var granted nlm4.TestArgs
		granted.Decode(&got, 4)
		answer := &nlm4.Res{Cookie: granted.Cookie, Status: nlm4.Granted}
		g.newClient("192.0.2.3", "b").mustCall(nlm4.ProcGrantedRes, answer) // a stranger
		assert.Equal(t, [2]int{1, 1}, g.countOpen())
		b.mustCall(nlm4.ProcGrantedRes, answer)
		assert.Equal(t, [2]int{}, g.countOpen())
		assert.Equal(t, nlm4.Denied, a.tryLock(true, 0, 1))
	})
}

// TestGolden compares a reply and a callback with bytes that were written by hand.
func TestGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
		const success = "00000001 00000000 00000000 00000000 00000000 " // reply, accepted, verifier, SUCCESS
		const blocked = success + "00000006 636f6f6b69650000 00000003"
		assert.Equal(t, wiretest.Bytes(t, blocked), b.callRaw(nlm4.Program, 4, nlm4.ProcLock, b.lockArgs(true, true, 0, 1).AppendTo(nil, 4)))
		const holder = success + "00000006 636f6f6b69650000 00000001 00000001 00000001 00000003 31406100 0000000000000000 0000000000000001"
		assert.Equal(t, wiretest.Bytes(t, holder), b.callRaw(nlm4.Program, 4, nlm4.ProcTest, (&nlm4.TestArgs{Cookie: cookie, Exclusive: true, Lock: b.lockOf(0, 0)}).AppendTo(nil, 4)))
	})
}
