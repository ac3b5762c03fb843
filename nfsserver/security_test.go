package nfsserver

import (
	"fmt"
	"math"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// withClients exports the first export to the clients in an exports(5) line.
func withClients(t testing.TB, clients string) func(*Config) {
	f, err := exports.Parse("exports", []byte("/x "+clients))
	require.NoError(t, err)
	return func(c *Config) { c.Exports[0].Clients = f.Exports[0].Clients }
}

// callWithCred makes one call with a credential, as the RPC layer hands it over, and
// decodes the results unless the call is denied.
func (g *testServer) callWithCred(h oncrpc.Handler, c *rpcmsg.Cred, proc uint32, args, res message) error {
	g.t.Helper()
	wire := xdr.AppendFixed(args.AppendTo(nil), dataItem(args))
	call := oncrpc.Call{Prog: nfs3.Program, Vers: nfs3.Version, Proc: proc, Cred: *c, Peer: g.peer, Args: xdr.NewReader(wire), MaxReply: g.maxReply}
	var rep oncrpc.Reply
	err := h.ServeRPC(g.t.Context(), &call, &rep)
	if err == nil {
		var item []byte
		if rep.Item != nil {
			item = append([]byte{}, rep.Item.B...)
		}
		g.decodeResults(rep.Head, item, res)
	}
	rep.DropItem()
	return err
}

func (g *testServer) callNFSWithCred(c *rpcmsg.Cred, proc uint32, args, res message) error {
	g.t.Helper()
	return g.callWithCred(nfsProgram{g.server}, c, proc, args, res)
}

var allFlavors = []exports.Flavor{exports.FlavorSys, exports.FlavorKrb5, exports.FlavorKrb5i, exports.FlavorKrb5p, exports.FlavorNone}

// credWithFlavor returns a user's credential for a call with a flavor.
func credWithFlavor(f exports.Flavor, uid uint32) *rpcmsg.Cred {
	if f == exports.FlavorNone {
		return &rpcmsg.Cred{Flavor: rpcmsg.AuthNone, UID: rpcmsg.Nobody, GID: rpcmsg.Nobody}
	}
	return &rpcmsg.Cred{Flavor: uint32(f), UID: uid, GID: uid, GIDs: []uint32{uid, 77}}
}

// rightsForNumber returns the words for a number in the matrix, and their meaning.
func rightsForNumber(n int) (words string, r exports.Rights) {
	r = exports.Rights{
		ReadOnly: n&1 != 0, NoRootSquash: n&2 != 0, AllSquash: n&4 != 0,
		AnonUID: exports.NewID(uint32(100 + n)), AnonGID: exports.NewID(uint32(200 + n)),
	}
	pick := func(b bool, yes, no string) string {
		if b {
			return yes
		}
		return no
	}
	return fmt.Sprintf("%s,%s,%s,anonuid=%d,anongid=%d", pick(r.ReadOnly, "ro", "rw"), pick(r.NoRootSquash, "no_root_squash", "root_squash"),
		pick(r.AllSquash, "all_squash", "no_all_squash"), 100+n, 200+n), r
}

// wantIdentity returns a caller's identity for a flavor with rights r.
func wantIdentity(c *rpcmsg.Cred, r *exports.Rights) vfs.Cred {
	anon := vfs.Cred{UID: r.AnonUID.Number(), GID: r.AnonGID.Number()}
	switch {
	case c.Flavor == rpcmsg.AuthNone || c.Anonymous || r.AllSquash:
		return anon
	case c.UID == 0 && !r.NoRootSquash:
		anon.Groups = []uint32{anon.GID, 77}
		return anon
	}
	return vfs.Cred{UID: c.UID, GID: c.GID, Groups: c.GIDs}
}

// TestSecurityMatrix checks calls with every flavor by users and by root, against exports that
// list one flavor with all combinations of rights, as the only one and before the others with
// the opposite rights. Calls without a credential are served as nobody where AUTH_SYS calls
// are.
func TestSecurityMatrix(t *testing.T) {
	for _, first := range allFlavors {
		for n := range 8 {
			words, rights := rightsForNumber(n)
			otherWords, otherRights := rightsForNumber(7 - n)
			for _, more := range []bool{false, true} {
				text := fmt.Sprintf("*(sec=%s,%s", first, words)
				listed := map[exports.Flavor]*exports.Rights{first: &rights}
				if more {
					for _, f := range allFlavors {
						if f != first {
							text += fmt.Sprintf(",sec=%s,%s", f, otherWords)
							listed[f] = &otherRights
						}
					}
				}
				if listed[exports.FlavorNone] == nil {
					listed[exports.FlavorNone] = listed[exports.FlavorSys]
				}
				fs := newMemFS()
				g := newTestServer(t, fs, withClients(t, text+")"))
				for _, f := range allFlavors {
					for _, uid := range []uint32{0, 1000} {
						c, what := credWithFlavor(f, uid), fmt.Sprintf("%s): %s %d", text, f, uid)
						fs.cred = vfs.Cred{UID: 9}
						var res nfs3.WccRes
						err := g.callNFSWithCred(c, nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Object: g.handleOf(memRoot)}, &res)
						r := listed[f]
						if r == nil {
							assert.Equal(t, rpcmsg.AuthTooWeak, err, what)
							assert.EqualValues(t, 9, fs.cred.UID, "no call of the file system: %s", what)
							continue
						}
						require.NoError(t, err, what)
						want := nfs3.OK
						if r.ReadOnly {
							want = nfs3.ErrROFS
						}
						assert.Equal(t, want, res.Status, what)
						identity := wantIdentity(c, r)
						assert.Equal(t, identity.UID, fs.cred.UID, what)
						assert.Equal(t, identity.GID, fs.cred.GID, what)
						assert.ElementsMatch(t, identity.Groups, fs.cred.Groups, what)
					}
				}
			}
		}
	}
}

// TestPrincipalWithoutUser checks that a principal without a user on this host is nobody, even
// where root is not.
func TestPrincipalWithoutUser(t *testing.T) {
	fs := newMemFS()
	g := newTestServer(t, fs, withClients(t, "*(sec=krb5,no_root_squash,anonuid=5,anongid=6)"))
	for _, c := range []rpcmsg.Cred{
		{Flavor: rpcmsg.AuthKrb5, Principal: "host/a.example@R", Anonymous: true, UID: rpcmsg.Nobody, GID: rpcmsg.Nobody},
		{Flavor: rpcmsg.AuthKrb5, Anonymous: true, GIDs: []uint32{0}},
		{Flavor: rpcmsg.AuthKrb5, UID: math.MaxUint32, GID: math.MaxUint32},
	} {
		var res nfs3.GetAttrRes
		require.NoError(t, g.callNFSWithCred(&c, nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: g.handleOf(memRoot)}, &res))
		assert.Equal(t, []uint32{5, 6}, []uint32{fs.cred.UID, fs.cred.GID})
		assert.Empty(t, fs.cred.Groups)
	}
}

// deniedStat returns a denied call's auth_stat, or 0 if the call is accepted.
func (g *testServer) deniedStat(head []byte) rpcmsg.AuthError {
	g.t.Helper()
	r := xdr.NewReader(head)
	r.Uint32()
	require.EqualValues(g.t, rpcmsg.MsgReply, r.Uint32())
	if r.Uint32() == rpcmsg.MsgAccepted {
		return 0
	}
	require.EqualValues(g.t, rpcmsg.DeniedAuth, r.Uint32())
	stat := r.Uint32()
	require.NoError(g.t, r.Done())
	return rpcmsg.AuthError(stat)
}

// TestEachTooWeak checks that an export that requires Kerberos denies other calls, at the RPC
// level (R2623-2.4-1), without a file system call. Only the calls with which clients mount pass
// (R2623-2.3.2-1): FSINFO, and at the root GETATTR, FSSTAT and PATHCONF, as nobody.
func TestEachTooWeak(t *testing.T) {
	atRoot := map[uint32]bool{nfs3.ProcGetAttr: true, nfs3.ProcFSStat: true, nfs3.ProcFSInfo: true, nfs3.ProcPathConf: true}
	eachProc(t, withClients(t, "*(sec=krb5p:krb5i,rw,no_root_squash,anonuid=5)"), func(t *testing.T, g *testServer, fs *memFS, p procCase, fh nfs3.FH) {
		g.peer.Addr = netip.MustParseAddrPort("192.0.2.1:700")
		for _, g.authNone = range []bool{false, true} {
			fs.cred = vfs.Cred{UID: 9}
			clock, args := fs.clock, p.args(fh)
			head, item := g.serveCall(xdr.AppendFixed(args.AppendTo(g.callHeader(nfs3.Program, nfs3.Version, p.proc)), dataItem(args)), nil)
			if atRoot[p.proc] {
				require.Zero(t, g.deniedStat(head))
				_, results := g.parseAccepted(head)
				g.decodeResults(results, item, p.res)
				assert.Equal(t, nfs3.OK, resultStatus(p.res))
				assert.EqualValues(t, 5, fs.cred.UID)
				continue
			}
			assert.Equal(t, rpcmsg.AuthTooWeak, g.deniedStat(head))
			assert.EqualValues(t, 9, fs.cred.UID, "no call of the file system")
			assert.Equal(t, clock, fs.clock)
			assert.Contains(t, g.log.String(), "takes=krb5p:krb5i")
		}
		fs.cred = vfs.Cred{UID: 9}
		err := g.callNFSWithCred(credWithFlavor(exports.FlavorKrb5, 1000), p.proc, p.args(fh), p.res)
		if p.proc == nfs3.ProcFSInfo {
			require.NoError(t, err)
			assert.False(t, p.res.(*nfs3.FSInfoRes).Attr.OK, "nothing of the file system")
		} else {
			assert.Equal(t, rpcmsg.AuthTooWeak, err, "without the protection that the export asks for")
		}
		assert.EqualValues(t, 9, fs.cred.UID)
		require.NoError(t, g.callNFSWithCred(credWithFlavor(exports.FlavorKrb5p, 1000), p.proc, p.args(fh), p.res))
		assert.Equal(t, nfs3.OK, resultStatus(p.res))
	})
}

// TestMountCallsElsewhere checks that no call passes for another object than the root, nor at
// an export's root without Kerberos (R2623-2.3.2-1). FSINFO passes, without any file system
// data.
func TestMountCallsElsewhere(t *testing.T) {
	for _, tt := range []struct {
		clients string
		root    bool
		flavor  exports.Flavor
	}{
		{"*(sec=krb5)", false, exports.FlavorSys},
		{"*(sec=krb5:none)", false, exports.FlavorSys},
		{"*(sec=none)", true, exports.FlavorSys},
	} {
		g, fs, handles := newScene(t, withClients(t, tt.clients))
		fh := handles[vfs.TypeReg]
		if tt.root {
			fh = handles[vfs.TypeDir]
		}
		fs.fail = syscall.EIO
		c, args := credWithFlavor(tt.flavor, 1000), &nfs3.HandleArgs{Object: fh}
		for proc, res := range map[uint32]message{
			nfs3.ProcGetAttr: new(nfs3.GetAttrRes), nfs3.ProcFSStat: new(nfs3.FSStatRes), nfs3.ProcPathConf: new(nfs3.PathConfRes),
		} {
			assert.Equal(t, rpcmsg.AuthTooWeak, g.callNFSWithCred(c, proc, args, res), "%s %s", tt.clients, nfs3.ProcName(proc))
		}
		var info nfs3.FSInfoRes
		require.NoError(t, g.callNFSWithCred(c, nfs3.ProcFSInfo, args, &info))
		assert.Equal(t, nfs3.OK, info.Status)
		assert.False(t, info.Attr.OK)
	}
}

// TestNullOfAnyFlavor checks that NULL is taken with AUTH_NONE and AUTH_SYS, from
// any port, although the only export takes Kerberos alone (R2623-2.3.1-1).
func TestNullOfAnyFlavor(t *testing.T) {
	g := newTestServer(t, newMemFS(), withClients(t, "*(sec=krb5p)"))
	g.peer.Addr = netip.MustParseAddrPort("192.0.2.1:40000")
	for _, g.authNone = range []bool{false, true} {
		for prog := range map[uint32]uint32{nfs3.Program: 3, nfsacl.Program: 3, mount3.Program: 3} {
			head, _ := g.serveCall(g.callHeader(prog, 3, 0), nil)
			assert.Zero(t, g.deniedStat(head))
		}
	}
}

// TestMountFlavors checks that MNT lists the export's flavors, in its order and nothing else,
// as pseudo-flavors and never as RPCSEC_GSS itself (R2623-3.2-1, R7530-3.2.1.1-2). MNT is
// accepted with any flavor.
func TestMountFlavors(t *testing.T) {
	for clients, want := range map[string][]uint32{
		"*(rw)":                              {1},
		"*(sec=sys)":                         {1},
		"*(sec=krb5p:krb5i:krb5:sys:none)":   {390005, 390004, 390003, 1, 0},
		"*(sec=sys:krb5)":                    {1, 390003},
		"*(sec=krb5,rw,sec=none,ro)":         {390003, 0},
		"192.0.2.0/24(sec=krb5i) *(sec=sys)": {390004},
	} {
		g := newTestServer(t, newMemFS(), withClients(t, clients))
		for _, f := range allFlavors {
			var res mount3.MntRes
			require.NoError(t, g.callWithCred(mountProgram{g.server}, credWithFlavor(f, 0), mount3.ProcMnt, &mount3.PathArgs{Path: []byte("/x")}, &res))
			assert.Equal(t, mount3.OK, res.Status, clients)
			assert.Equal(t, want, res.Flavors, clients)
		}
	}
}

// TestPortsOfVerified checks that the port of a Kerberos call does not matter: only for an
// unverified caller does the port show who vouches for the call.
func TestPortsOfVerified(t *testing.T) {
	g := newTestServer(t, newMemFS(), withClients(t, "*(sec=sys:krb5:krb5i:krb5p)"))
	g.peer.Addr = netip.MustParseAddrPort("192.0.2.1:1024")
	for _, f := range allFlavors {
		var res nfs3.GetAttrRes
		var mnt mount3.MntRes
		require.NoError(t, g.callNFSWithCred(credWithFlavor(f, 1000), nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: g.handleOf(memRoot)}, &res))
		require.NoError(t, g.callWithCred(mountProgram{g.server}, credWithFlavor(f, 0), mount3.ProcMnt, &mount3.PathArgs{Path: []byte("/x")}, &mnt))
		if f.Kerberos() {
			assert.Equal(t, nfs3.OK, res.Status, f)
			assert.Equal(t, mount3.OK, mnt.Status, f)
		} else {
			assert.Equal(t, nfs3.ErrPerm, res.Status, f)
			assert.Equal(t, mount3.ErrAcces, mnt.Status, f)
		}
	}
}

// TestPortsWhileMounting checks that the calls with which clients mount an export with
// Kerberos pass only from a port that its option secure permits.
func TestPortsWhileMounting(t *testing.T) {
	g := newTestServer(t, newMemFS(), withClients(t, "*(sec=krb5)"))
	for port, want := range map[uint16]nfs3.Status{1023: nfs3.OK, 1024: nfs3.ErrPerm} {
		g.peer.Addr = netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port)
		var res nfs3.GetAttrRes
		require.NoError(t, g.callNFSWithCred(credWithFlavor(exports.FlavorSys, 0), nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: g.handleOf(memRoot)}, &res))
		assert.Equal(t, want, res.Status, port)
	}
}

// TestSecurityTakenAway checks that AUTH_SYS users lose access, on existing connections, once
// the export requires Kerberos, and are served again later.
func TestSecurityTakenAway(t *testing.T) {
	g, _, handles := newScene(t)
	c, args := credWithFlavor(exports.FlavorSys, 1000), &nfs3.ReadArgs{File: handles[vfs.TypeReg], Count: 100}
	set := func(clients string) {
		list := g.server.Exports()
		withClients(t, clients)(&Config{Exports: list})
		require.NoError(t, g.server.exports.SetExports(list))
	}
	var res nfs3.ReadRes
	require.NoError(t, g.callNFSWithCred(c, nfs3.ProcRead, args, &res))
	set("*(sec=krb5)")
	assert.Equal(t, rpcmsg.AuthTooWeak, g.callNFSWithCred(c, nfs3.ProcRead, args, &res))
	require.NoError(t, g.callNFSWithCred(credWithFlavor(exports.FlavorKrb5, 1000), nfs3.ProcRead, args, &res))
	assert.Equal(t, nfs3.OK, res.Status)
	set("*(sec=krb5:sys)")
	require.NoError(t, g.callNFSWithCred(c, nfs3.ProcRead, args, &res))
	assert.Equal(t, nfs3.OK, res.Status)
}

// TestSecurityOfACLs checks that access lists pass the same gate.
func TestSecurityOfACLs(t *testing.T) {
	g := newTestServer(t, newMemFS(), withClients(t, "*(sec=krb5)"))
	get, set := &nfsacl.GetACLArgs{Object: g.handleOf(memRoot)}, &nfsacl.SetACLArgs{Object: g.handleOf(memRoot)}
	sys, krb5 := credWithFlavor(exports.FlavorSys, 1000), credWithFlavor(exports.FlavorKrb5, 1000)
	assert.Equal(t, rpcmsg.AuthTooWeak, g.callWithCred(aclProgram{g.server}, sys, nfsacl.ProcGetACL, get, new(nfsacl.GetACLRes)))
	assert.Equal(t, rpcmsg.AuthTooWeak, g.callWithCred(aclProgram{g.server}, sys, nfsacl.ProcSetACL, set, new(nfsacl.SetACLRes)))
	assert.NoError(t, g.callWithCred(aclProgram{g.server}, krb5, nfsacl.ProcGetACL, get, new(nfsacl.GetACLRes)))
}

// TestSecurityOfDelegations checks that delegation counters pass the same checks, that nothing
// is delegated to a caller whose data is protected, because recalls are not, and that
// delegations are recalled when an export requires other flavors.
func TestSecurityOfDelegations(t *testing.T) {
	kerberos := func(text string) []exports.Client {
		f, err := exports.Parse("exports", []byte("/x *(insecure,exclusive,"+text+")"))
		require.NoError(t, err)
		return f.Exports[0].Clients
	}
	runWithGrants(t, func(c *Config) { c.Exports[0].Clients = kerberos("sec=sys:krb5i:krb5p") }, func(t *testing.T, g *grantServer) {
		ask := func(f exports.Flavor) (res delegation.AcquireRes, err error) {
			args := delegation.AcquireArgs{Handle: g.fh["f"], Types: delegation.FileData}
			call := oncrpc.Call{Prog: delegation.Program, Proc: delegation.ProcAcquire, Cred: *credWithFlavor(f, 1000), Args: xdr.NewReader(args.AppendTo(nil)), MaxReply: 4096}
			var rep oncrpc.Reply
			if err = (acquireProgram{g.s}).ServeRPC(t.Context(), &call, &rep); err == nil {
				r := xdr.NewReader(rep.Head)
				res.Decode(&r)
			}
			return res, err
		}
		for _, f := range []exports.Flavor{exports.FlavorKrb5i, exports.FlavorKrb5p} {
			res, err := ask(f)
			require.NoError(t, err)
			assert.Equal(t, delegation.AcquireRes{Status: delegation.StatusRefused, Reason: delegation.ReasonTypes}, res)
		}
		p := g.connectClient()
		defer p.disconnect()
		p.acquireAll("f")
		list := g.s.Exports()
		list[0].Clients = kerberos("sec=krb5")
		require.NoError(t, g.s.exports.SetExports(list))
		assert.NotEmpty(t, p.takeRecalls())
		_, err := ask(exports.FlavorSys)
		assert.Equal(t, rpcmsg.AuthTooWeak, err)
	})
}
