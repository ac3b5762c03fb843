package nlmserver

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// clientsOf returns the clients in an exports(5) line.
func clientsOf(t testing.TB, options string) []exports.Client {
	f, err := exports.Parse("exports", []byte("/x *("+options+")"))
	require.NoError(t, err)
	return f.Exports[0].Clients
}

// callWithFlavor sends a call with a flavor, as the RPC layer passes it on. It returns
// the status, which follows the cookie, or the denial.
func (c *testClient) callWithFlavor(flavor uint32, proc uint32, a message) (nlm4.Status, error) {
	c.g.t.Helper()
	cred := c.cred
	cred.Flavor = flavor
	call := oncrpc.Call{Prog: nlm4.Program, Vers: c.vers, Proc: proc, Cred: cred, Peer: &c.peer, Args: xdr.NewReader(a.AppendTo(nil, c.vers)), MaxReply: 8192}
	var rep oncrpc.Reply
	if err := (lockManager{c.g.s, c.vers}).ServeRPC(c.g.t.Context(), &call, &rep); err != nil {
		return 0, err
	}
	r := xdr.NewReader(rep.Head)
	var res nlm4.Res
	res.Cookie = r.Opaque(len(cookie))
	res.Status = nlm4.Status(r.Uint32())
	require.NoError(c.g.t, r.Err())
	return res.Status, nil
}

// TestSecurityOfLocks checks that locks and shares require the export's
// security flavors, also when they are released: no other caller may release a
// verified user's locks.
func TestSecurityOfLocks(t *testing.T) {
	g := newTestServer(t, func(_ *nfs4state.Config, _ *Config, c *exportset.Config) {
		c.Exports[0].Clients = clientsOf(t, "rw,sec=krb5")
	})
	a := g.newClient("192.0.2.1", "a")
	lock := a.lockOf(0, 1)
	share := &nlm4.ShareArgs{Cookie: cookie, Share: nlm4.Share{Caller: lock.Caller, Handle: lock.Handle, Owner: lock.Owner, Access: nlm4.Read, Deny: nlm4.Write}}
	calls := []struct {
		proc uint32
		args message
	}{
		{nlm4.ProcTest, &nlm4.TestArgs{Cookie: cookie, Exclusive: true, Lock: lock}},
		{nlm4.ProcLock, a.lockArgs(false, true, 0, 1)},
		{nlm4.ProcNMLock, a.lockArgs(false, true, 0, 1)},
		{nlm4.ProcShare, share},
		{nlm4.ProcUnshare, share},
		{nlm4.ProcUnlock, &nlm4.UnlockArgs{Cookie: cookie, Lock: lock}},
	}
	for _, c := range calls {
		got, err := a.callWithFlavor(rpcmsg.AuthKrb5, c.proc, c.args)
		require.NoError(t, err)
		assert.Equal(t, nlm4.Granted, got, c.proc)
	}
	assert.Zero(t, g.lockCount())
	got, err := a.callWithFlavor(rpcmsg.AuthKrb5, nlm4.ProcLock, a.lockArgs(false, true, 0, 1))
	require.NoError(t, err)
	require.Equal(t, nlm4.Granted, got)
	calls = append(calls, calls[0])
	calls[len(calls)-1].proc, calls[len(calls)-1].args = nlm4.ProcCancel, &nlm4.CancelArgs{Cookie: cookie, Exclusive: true, Lock: lock}
	for _, c := range calls {
		for _, f := range []uint32{rpcmsg.AuthSys, rpcmsg.AuthNone, rpcmsg.AuthKrb5i} {
			_, err := a.callWithFlavor(f, c.proc, c.args)
			assert.Equal(t, rpcmsg.AuthTooWeak, err, "%d by flavor %d", c.proc, f)
		}
	}
	assert.Equal(t, 1, g.lockCount())
	assert.NotEmpty(t, a.callRaw(nlm4.Program, a.vers, nlm4.ProcLock, a.lockArgs(false, true, 0, 1).AppendTo(nil, a.vers)), "a denied call gets a reply")
}

// TestInsecureLocks checks that insecure_locks lets clients lock with AUTH_SYS
// where all else needs Kerberos, as Linux's client does, regardless of the file's
// permissions, but nothing that the export permits to no one.
func TestInsecureLocks(t *testing.T) {
	var secret []byte
	g := newTestServer(t, func(_ *nfs4state.Config, _ *Config, c *exportset.Config) {
		c.Exports[0].Clients = clientsOf(t, "rw,sec=krb5,insecure_locks")
	})
	secret = g.fileHandle(g.makeFile(g.realm.Snapshot().List()[0].FS, "secret", 0o600))
	a := g.newClient("192.0.2.1", "a")
	a.cred.UID, a.lock.Handle = 4321, secret
	assert.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
	b := g.newClient("192.0.2.2", "b")
	b.lock.Handle = secret
	assert.Equal(t, nlm4.Denied, b.tryLock(true, 0, 1))
	assert.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
	assert.Equal(t, nlm4.Granted, b.tryLock(true, 0, 1))
	list := g.realm.Exports()
	list[0].Clients = clientsOf(t, "ro,sec=krb5,insecure_locks")
	require.NoError(t, g.realm.SetExports(list))
	assert.Equal(t, nlm4.ReadOnly, a.tryLock(true, 5, 1))
	list[0].Clients = clientsOf(t, "rw,sec=krb5:sys,insecure_locks")
	require.NoError(t, g.realm.SetExports(list))
	assert.Equal(t, nlm4.Failed, a.tryLock(true, 5, 1), "AUTH_SYS is listed, so the caller's rights count")
}

// TestPortsOfInsecureLocks checks that insecure_locks permits no call from a port that
// the export's option secure rejects, not even to release a lock.
func TestPortsOfInsecureLocks(t *testing.T) {
	g := newTestServer(t, func(_ *nfs4state.Config, _ *Config, c *exportset.Config) {
		c.Exports[0].Clients = clientsOf(t, "rw,sec=krb5,insecure_locks,secure")
	})
	a := g.newClient("192.0.2.1", "a")
	a.peer.Network, a.peer.Addr = "tcp", netip.MustParseAddrPort("192.0.2.1:700")
	require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
	a.peer.Addr = netip.MustParseAddrPort("192.0.2.1:40000")
	assert.Equal(t, nlm4.Failed, a.tryLock(true, 5, 1))
	assert.Equal(t, nlm4.Failed, a.unlockRange(0, 1))
	assert.Equal(t, 1, g.lockCount())
	a.peer.Addr = netip.MustParseAddrPort("192.0.2.1:700")
	assert.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
}

// TestLocksOfFlavorTakenAway checks that locks stay when the export no longer accepts their
// client's flavor: the client believes that it has them, and may later call again with the
// same flavor. Until then the client cannot release them, but its restart does.
func TestLocksOfFlavorTakenAway(t *testing.T) {
	g := newTestServer(t, func(_ *nfs4state.Config, _ *Config, c *exportset.Config) { c.Exports[0].Clients = clientsOf(t, "rw") })
	a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
	require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 2))
	list := g.realm.Exports()
	list[0].Clients = clientsOf(t, "rw,sec=krb5")
	require.NoError(t, g.realm.SetExports(list))
	unlock := &nlm4.UnlockArgs{Cookie: cookie, Lock: a.lockOf(0, 1)}
	_, err := a.callWithFlavor(rpcmsg.AuthSys, nlm4.ProcUnlock, unlock)
	assert.Equal(t, rpcmsg.AuthTooWeak, err)
	got, err := b.callWithFlavor(rpcmsg.AuthKrb5, nlm4.ProcLock, b.lockArgs(false, true, 0, 1))
	require.NoError(t, err)
	assert.Equal(t, nlm4.Denied, got)

	list[0].Clients = clientsOf(t, "rw,sec=krb5:sys")
	require.NoError(t, g.realm.SetExports(list))
	got, err = a.callWithFlavor(rpcmsg.AuthSys, nlm4.ProcUnlock, unlock)
	require.NoError(t, err)
	assert.Equal(t, nlm4.Granted, got)
	assert.Equal(t, 1, g.lockCount())

	list[0].Clients = clientsOf(t, "rw,sec=krb5")
	require.NoError(t, g.realm.SetExports(list))
	a.mustCall(nlm4.ProcFreeAll, &nlm4.Notify{Name: []byte("a")})
	assert.Zero(t, g.lockCount())
}
