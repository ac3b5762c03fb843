package nfs4server

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// peerAt returns a peer at an address and a port.
func peerAt(addr string) *oncrpc.Peer {
	return &oncrpc.Peer{Addr: netip.MustParseAddrPort(addr), Network: "tcp"}
}

// Another host, which has even read a client's and its session's IDs on the network, neither
// learns the session through CREATE_SESSION, nor ends the session or the client. It claims to
// be the client's user.
//
// R8881-18.37.3-3.
func TestManageClientFromElsewhere(t *testing.T) {
	g := newTestServer(t).becomeRoot().connectClient()
	fh := g.makeFile("f", "content")
	g.openName(openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate))
	client := g.s.state.Session(g.session).ClientID()
	x := *g
	x.peer = peerAt("198.51.100.66:700")
	ch := nfs4.ChannelAttrs{MaxRequestSize: 1 << 20, MaxResponseSize: 1 << 20, MaxResponseSizeCached: 7584, MaxOperations: 16, MaxRequests: 8}
	for n := range uint32(5) {
		var res nfs4.CreateSessionRes
		st, _ := x.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: client, Sequence: n, Fore: ch, Back: ch, CBProgram: 0x40000000, SecParms: nfs4.SecParms{None: true}}, &res})
		assert.Equal(t, nfs4.ErrStaleClientID, st, n)
	}
	for _, tt := range []struct {
		step   step
		status nfs4.Status
	}{
		{step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.session}, newStatusRes()}, nfs4.ErrConnNotBoundToSession},
		{step{nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{ClientID: client}, newStatusRes()}, nfs4.ErrWrongCred},
		{step{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte("client"), Verifier: nfs4.Verifier{9}}, new(nfs4.ExchangeIDRes)}, nfs4.ErrDelay},
	} {
		st, _ := x.sendRaw(tt.step)
		assert.Equal(t, tt.status, st, tt.step.op)
	}
	_, st := g.readFile(fh, nfs4.AnonymousStateID)
	assert.Equal(t, nfs4.OK, st, "the client's next call")
}

// A client reconnects: its connections come from other ports, and from another address. It goes
// on with its session there, binds the connection and destroys the session.
func TestReconnectFromElsewhere(t *testing.T) {
	g := newTestServer(t).connectClient()
	for _, addr := range []string{"192.0.2.1:701", "198.51.100.7:40000"} {
		g.peer = peerAt(addr)
		st, _ := g.sendSteps()
		require.Equal(t, nfs4.OK, st, addr)
		var res nfs4.BindConnRes
		st, _ = g.sendRaw(step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.session, Dir: nfs4.BindFore}, &res})
		require.Equal(t, nfs4.OK, st, addr)
	}
	st, _ := g.sendRaw(step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.session}, newStatusRes()})
	require.Equal(t, nfs4.OK, st)
}

// BIND_CONN_TO_SESSION and BACKCHANNEL_CTL change where callbacks go: if a client has a
// verified principal, user calls do not change that.
func TestBindSessionOfPrincipal(t *testing.T) {
	g := newTestServer(t)
	g.cred = rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5, Principal: "host/a@R"}
	g.connectClient()
	user := *g
	user.cred = rpcmsg.Cred{Flavor: rpcmsg.AuthSys}
	user.peer = peerAt("198.51.100.66:700")
	bind := func(g *testServer) nfs4.Status {
		st, _ := g.sendRaw(step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.session, Dir: nfs4.BindFore}, new(nfs4.BindConnRes)})
		return st
	}
	assert.Equal(t, nfs4.ErrWrongCred, bind(&user))
	st, _ := user.sendSteps(step{nfs4.OpBackchannelCtl, &nfs4.BackchannelCtlArgs{CBProgram: 1, SecParms: nfs4.SecParms{None: true}}, newStatusRes()})
	assert.Equal(t, nfs4.ErrInval, st)
	assert.Equal(t, nfs4.OK, bind(g))
}

// A directory that leads to an export below keeps its name: otherwise the lower export's files
// would be reached by the upper export alone, whatever flavors the lower one takes.
func TestNestedExportKeepsItsPath(t *testing.T) {
	top := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(top, "a", "hr"), 0o777))
	for _, d := range []string{"", "a", "a/hr"} {
		require.NoError(t, os.Chmod(filepath.Join(top, d), 0o777))
	}
	require.NoError(t, os.WriteFile(filepath.Join(top, "a/hr/salaries"), []byte("content"), 0o666))
	export := func(path, dir string, sec exports.Security) exportset.Export {
		fs, err := posix.Open(filepath.Join(top, dir), posix.Options{StateDir: t.TempDir()})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, fs.Close()) })
		return exportset.Export{Path: path, FS: fs, Clients: exports.Everyone(exports.Options{Insecure: true, Sec: sec})}
	}
	g := newTestServer(t, export("/x", "", exports.Security{}), export("/x/a/hr", "a/hr", exports.Secure(exports.Rights{}, exports.FlavorKrb5p)))
	t.Cleanup(g.s.Close)
	g.cred = rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 4242, GID: 4242}
	g.connectAs("one")
	rename := func(old, name string) nfs4.Status {
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpSaveFH, &void, newStatusRes()}, step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte(old), New: []byte(name)}, new(nfs4.RenameRes)})
		return st
	}
	st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("free")}, new(nfs4.CreateRes)})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.ErrAccess, rename("a", "b"))
	assert.Equal(t, nfs4.ErrAccess, rename("free", "a"))
	assert.Equal(t, nfs4.OK, rename("free", "b"))
	st, n := g.sendSteps(putRootStep(), lookupStep("x"), lookupStep("a"), lookupStep("hr"), lookupStep("salaries"))
	assert.Equal(t, nfs4.ErrWrongSec, st)
	assert.Equal(t, 4, n, "the export is still there")
}
