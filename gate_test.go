package nfsrdma

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// listedHosts returns a memory file system that is exported to some hosts.
func listedHosts(t *testing.T, o exports.Options, hosts ...string) nfsserver.Export {
	e := nfsserver.Export{Path: "/x", FS: mem.New(mem.Options{Size: 1 << 20, Mode: 0o777})}
	for _, h := range hosts {
		host, err := exports.ParseHost(h)
		require.NoError(t, err)
		e.Clients = append(e.Clients, exports.Client{Host: host, Options: o})
	}
	return e
}

// peerOf returns the peer that a transport creates for a connection or a datagram.
func peerOf(network, addr string) *oncrpc.Peer {
	return &oncrpc.Peer{Addr: netip.MustParseAddrPort(addr), Network: network}
}

// sysCred returns an AUTH_SYS credential with a uid.
func sysCred(uid uint32) []byte {
	b := xdr.AppendString(xdr.AppendUint32(nil, 1), "client")
	return xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(b, uid), uid), 0)
}

// lastXID numbers the calls of all tests: none is a retransmission.
var lastXID atomic.Uint32

// callService makes a call with AUTH_SYS, and returns the reply from its status on, or nil
// if there is no reply.
func callService(t *testing.T, s oncrpc.Service, p *oncrpc.Peer, uid, prog, vers, proc uint32, args []byte) []byte {
	t.Helper()
	var b []byte
	for _, w := range []uint32{lastXID.Add(1), rpcmsg.MsgCall, rpcmsg.Version, prog, vers, proc, rpcmsg.AuthSys} {
		b = xdr.AppendUint32(b, w)
	}
	b = xdr.AppendOpaque(b, sysCred(uid))
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0) // verifier: AUTH_NONE
	rep := oncrpc.Reply{}
	if !s.Serve(t.Context(), &oncrpc.Request{Msg: append(b, args...), Peer: p, MaxReply: 1 << 16, MaxWhole: 1 << 16}, &rep) {
		return nil
	}
	if rep.Item != nil {
		defer rep.Item.Release()
	}
	return rep.Head[8:]
}

// denialReason returns the reason for which a call was denied, or 0.
func denialReason(reply []byte) rpcmsg.AuthError {
	if len(reply) != 12 || binary.BigEndian.Uint32(reply) != 1 || binary.BigEndian.Uint32(reply[4:]) != 1 {
		return 0
	}
	return rpcmsg.AuthError(binary.BigEndian.Uint32(reply[8:]))
}

// isSuccess reports whether a reply says that the call was accepted and executed.
func isSuccess(reply []byte) bool {
	return len(reply) >= 16 && binary.BigEndian.Uint64(reply) == 0 && binary.BigEndian.Uint64(reply[8:]) == 0
}

// A procedure is a program's procedure other than procedure 0.
type procedure struct {
	name             string
	prog, vers, proc uint32
	args             []byte
}

// everyProcedure returns all procedures of a server's programs except procedure 0. Those
// of NFSv4 are COMPOUNDs with one operation.
func everyProcedure() (list []procedure) {
	add := func(name string, prog, vers, last uint32) {
		for proc := uint32(1); proc <= last; proc++ {
			list = append(list, procedure{fmt.Sprint(name, " ", proc), prog, vers, proc, nil})
		}
	}
	add("NFSv3", nfs3.Program, nfs3.Version, nfs3.NumProc-1)
	add("MOUNT", mount3.Program, mount3.Version, mount3.ProcExport)
	add("NFSACL", nfsacl.Program, nfsacl.Version, nfsacl.ProcSetACL)
	for _, v := range []uint32{nlm4.Version1, nlm4.Version3, nlm4.Version} {
		add(fmt.Sprint("NLM ", v), nlm4.Program, v, nlm4.ProcFreeAll)
	}
	add("NSM", nsm.Program, nsm.Version, nsm.ProcNotify)
	for minor := range uint32(3) {
		for op := nfs4.Op(3); op <= nfs4.OpRemoveXattr; op++ {
			head := nfs4.CompoundArgs{Minor: minor, N: 1}
			list = append(list, procedure{
				fmt.Sprintf("NFSv4.%d %s", minor, op), nfs4.Program, nfs4.Version, nfs4.ProcCompound,
				xdr.AppendUint32(head.AppendTo(nil), uint32(op)),
			})
		}
	}
	return list
}

// TestUnlistedHost checks that a host that no export lists is denied all procedures but
// procedure 0 of every program, on each transport.
func TestUnlistedHost(t *testing.T) {
	s := startServer(t, ServerConfig{Exports: []nfsserver.Export{listedHosts(t, exports.Options{Insecure: true}, "192.0.2.1")}})
	for _, network := range []string{"tcp", "rdma", "udp"} {
		services := map[string]oncrpc.Service{"tcp": s.parts.TCP.Handler, "rdma": s.parts.RDMA.Handler, "udp": s.udpCalls}
		stranger := peerOf(network, "198.51.100.66:700")
		for _, p := range everyProcedure() {
			if network == "udp" && p.prog != nlm4.Program && p.prog != nsm.Program {
				continue // the operation is not in this minor version
			}
			assert.Equal(t, rpcmsg.AuthBadCred, denialReason(callService(t, services[network], stranger, 0, p.prog, p.vers, p.proc, p.args)), "%s %s", network, p.name)
			assert.True(t, isSuccess(callService(t, services[network], stranger, 0, p.prog, p.vers, 0, nil)), "%s NULL %s", network, p.name)
		}
	}
	// A listed host's calls are accepted, though their arguments are missing.
	for _, p := range everyProcedure() {
		reply := callService(t, s.parts.TCP.Handler, peerOf("tcp", "192.0.2.1:700"), 0, p.prog, p.vers, p.proc, p.args)
		assert.Zero(t, denialReason(reply), p.name)
	}
	// ACQUIRE exists only on connections with delegation counters.
	assert.False(t, isSuccess(callService(t, s.parts.RDMA.Handler, peerOf("rdma", "198.51.100.66:700"), 0, delegation.Program, delegation.Version, 1, nil)))
}

// TestUnlistedHostAsksPortmapper checks that the portmapper serves every host: it returns
// addresses, and changes nothing.
func TestUnlistedHostAsksPortmapper(t *testing.T) {
	mux := &oncrpc.Mux{Log: silent}
	rpcbind.NewPortmapper(nil).Register(mux)
	stranger := peerOf("tcp", "198.51.100.66:700")
	for _, vers := range []uint32{2, 3, 4} {
		assert.True(t, isSuccess(callService(t, mux, stranger, 0, rpcbind.Program, vers, 0, nil)), vers)
		assert.True(t, isSuccess(callService(t, mux, stranger, 0, rpcbind.Program, vers, 4, nil)), "DUMP by version %d", vers)
	}
}

// TestListedHost checks that a host is admitted whatever flavors and transports its export
// accepts, and that changes of the exports apply to existing connections.
func TestListedHost(t *testing.T) {
	kerberos, tls := exports.Options{}, exports.Options{}
	var err error
	tls.Xprtsec, err = exports.ParseTransports("mtls")
	require.NoError(t, err)
	kerberos.Sec = exports.Secure(exports.Rights{}, exports.FlavorKrb5p)
	for _, tt := range []struct {
		name string
		o    exports.Options
		host string
	}{
		{"address", exports.Options{}, "198.51.100.66"},
		{"network", exports.Options{}, "198.51.100.0/24"},
		{"everyone", exports.Options{}, "*"},
		{"Kerberos alone", kerberos, "*"},
		{"TLS alone", tls, "*"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			others := listedHosts(t, exports.Options{}, "192.0.2.1")
			s := startServer(t, ServerConfig{Exports: []nfsserver.Export{others}})
			p := peerOf("tcp", "198.51.100.66:40000")
			denied := func() rpcmsg.AuthError {
				return denialReason(callService(t, s.parts.TCP.Handler, p, 0, mount3.Program, mount3.Version, mount3.ProcExport, nil))
			}
			assert.Equal(t, rpcmsg.AuthBadCred, denied())
			second := listedHosts(t, tt.o, tt.host)
			second.Path = "/y"
			require.NoError(t, s.SetExports([]nfsserver.Export{others, second}))
			assert.Zero(t, denied(), "after exports were added")
			require.NoError(t, s.SetExports([]nfsserver.Export{others}))
			assert.Equal(t, rpcmsg.AuthBadCred, denied(), "after they were removed")
		})
	}
}

// fakeNames are host names whose lookup may fail.
type fakeNames struct {
	err   error
	addrs []netip.Addr
}

func (n *fakeNames) NamesOf(context.Context, netip.Addr) ([]string, error) { return nil, n.err }

func (n *fakeNames) AddrsOf(context.Context, string) ([]netip.Addr, error) { return n.addrs, n.err }

// TestHostOfUnknownName checks that calls are neither executed nor denied while the host's
// name is unknown: NFSv3 returns "try later", and for other programs the connection is
// closed.
func TestHostOfUnknownName(t *testing.T) {
	names := &fakeNames{err: assert.AnError}
	s := startServer(t, ServerConfig{Exports: []nfsserver.Export{listedHosts(t, exports.Options{}, "client.example")}, Names: names})
	cuts := 0
	p := peerOf("tcp", "198.51.100.66:700")
	p.Cut = func(error) { cuts++ }
	call := func(prog, vers, proc uint32, args []byte) []byte {
		return callService(t, s.parts.TCP.Handler, p, 0, prog, vers, proc, args)
	}
	mnt := func() uint32 {
		reply := call(mount3.Program, mount3.Version, mount3.ProcMnt, (&mount3.PathArgs{Path: []byte("/x")}).AppendTo(nil))
		require.True(t, isSuccess(reply))
		return binary.BigEndian.Uint32(reply[16:])
	}
	compound := (&nfs4.CompoundArgs{Minor: nfs4.Minor1}).AppendTo(nil)
	assert.EqualValues(t, mount3.ErrServerFault, mnt())
	assert.Nil(t, call(nfs4.Program, nfs4.Version, nfs4.ProcCompound, compound))
	assert.Equal(t, 1, cuts)

	names.err, names.addrs = nil, []netip.Addr{p.Addr.Addr()}
	assert.True(t, isSuccess(call(nfs4.Program, nfs4.Version, nfs4.ProcCompound, compound)))
	assert.EqualValues(t, mount3.OK, mnt())
	assert.Equal(t, 1, cuts)
}

// TestHostOfUnknownNameReconnects checks that a client that reconnects immediately does not
// do so hundreds of times a second.
func TestHostOfUnknownNameReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := exportset.New(exportset.Config{
			Exports: []nfsserver.Export{listedHosts(t, exports.Options{}, "client.example")}, Names: &fakeNames{err: assert.AnError}, Log: silent,
		})
		require.NoError(t, err)
		g := &hostGate{r, silent}
		cuts, began := 0, time.Now()
		for time.Since(began) < time.Minute {
			p := peerOf("rdma", "198.51.100.66:700")
			p.Cut = func(error) { cuts++ }
			assert.ErrorIs(t, g.admitCall(t.Context(), &oncrpc.Call{Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Peer: p}), oncrpc.ErrNoAnswer)
			if cuts > 1000 {
				break
			}
		}
		assert.LessOrEqual(t, cuts, 60)
	})
}

// TestListedHostCostsNothing checks that the check of a call allocates no memory.
func TestListedHostCostsNothing(t *testing.T) {
	s := startServer(t, ServerConfig{Exports: []nfsserver.Export{listedHosts(t, exports.Options{}, "192.0.2.1")}})
	call := oncrpc.Call{Prog: nfs3.Program, Vers: nfs3.Version, Proc: 1, Peer: peerOf("tcp", "192.0.2.1:700")}
	g := &hostGate{s.exports, silent}
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		if g.admitCall(t.Context(), &call) != nil {
			t.Error("denied")
		}
	}), racetest.PoolLosses(0))
}

// TestUserOfListedHost checks that an ordinary user of a listed host who claims to be root,
// but cannot use ports below 1024, is denied all procedures on a `secure` export.
func TestUserOfListedHost(t *testing.T) {
	s := startServer(t, ServerConfig{Exports: []nfsserver.Export{listedHosts(t, exports.Options{}, "192.0.2.1")}})
	user, root := peerOf("tcp", "192.0.2.1:40000"), peerOf("tcp", "192.0.2.1:700")
	path := (&mount3.PathArgs{Path: []byte("/x")}).AppendTo(nil)
	reply := callService(t, s.parts.TCP.Handler, root, 0, mount3.Program, mount3.Version, mount3.ProcMnt, path)
	r := xdr.NewReader(reply[16:])
	var mnt mount3.MntRes
	mnt.Decode(&r)
	require.Equal(t, mount3.OK, mnt.Status)
	fh := mnt.Handle
	at, object := nfs3.DirOpArgs{Dir: fh, Name: []byte("n")}, nfs3.HandleArgs{Object: fh}
	write := nfs3.WriteArgs{File: fh, Data: []byte("data")}
	for proc, args := range map[uint32][]byte{
		nfs3.ProcGetAttr: object.AppendTo(nil), nfs3.ProcSetAttr: (&nfs3.SetAttrArgs{Object: fh}).AppendTo(nil), nfs3.ProcLookup: at.AppendTo(nil),
		nfs3.ProcAccess: (&nfs3.AccessArgs{Object: fh}).AppendTo(nil), nfs3.ProcReadLink: object.AppendTo(nil), nfs3.ProcRead: (&nfs3.ReadArgs{File: fh, Count: 4}).AppendTo(nil),
		nfs3.ProcWrite: append(write.AppendTo(nil), write.Data...), nfs3.ProcCreate: (&nfs3.CreateArgs{Where: at}).AppendTo(nil),
		nfs3.ProcMkdir: (&nfs3.MkdirArgs{Where: at}).AppendTo(nil), nfs3.ProcSymlink: append((&nfs3.SymlinkArgs{Where: at, Path: []byte("path")}).AppendTo(nil), "path"...),
		nfs3.ProcMknod: (&nfs3.MknodArgs{Where: at, Type: nfs3.TypeFIFO}).AppendTo(nil), nfs3.ProcRemove: at.AppendTo(nil), nfs3.ProcRmdir: at.AppendTo(nil),
		nfs3.ProcRename: (&nfs3.RenameArgs{From: at, To: at}).AppendTo(nil), nfs3.ProcLink: (&nfs3.LinkArgs{File: fh, Link: at}).AppendTo(nil),
		nfs3.ProcReadDir: (&nfs3.ReadDirArgs{Dir: fh, Count: 4096}).AppendTo(nil), nfs3.ProcReadDirPlus: (&nfs3.ReadDirPlusArgs{Dir: fh, DirCount: 4096, MaxCount: 4096}).AppendTo(nil),
		nfs3.ProcFSStat: object.AppendTo(nil), nfs3.ProcFSInfo: object.AppendTo(nil), nfs3.ProcPathConf: object.AppendTo(nil), nfs3.ProcCommit: (&nfs3.CommitArgs{File: fh}).AppendTo(nil),
	} {
		reply := callService(t, s.parts.TCP.Handler, user, 0, nfs3.Program, nfs3.Version, proc, args)
		if assert.True(t, isSuccess(reply), "NFSv3 %d", proc) {
			assert.EqualValues(t, nfs3.ErrPerm, binary.BigEndian.Uint32(reply[16:]), "NFSv3 %d", proc)
		}
	}
	reply = callService(t, s.parts.TCP.Handler, user, 0, mount3.Program, mount3.Version, mount3.ProcMnt, path)
	assert.EqualValues(t, mount3.ErrAcces, binary.BigEndian.Uint32(reply[16:]))
	for proc, args := range map[uint32][]byte{
		nfsacl.ProcGetACL: (&nfsacl.GetACLArgs{Object: fh}).AppendTo(nil), nfsacl.ProcSetACL: (&nfsacl.SetACLArgs{Object: fh}).AppendTo(nil),
	} {
		reply := callService(t, s.parts.TCP.Handler, user, 0, nfsacl.Program, nfsacl.Version, proc, args)
		if assert.True(t, isSuccess(reply), "NFSACL %d", proc) {
			assert.EqualValues(t, nfs3.ErrPerm, binary.BigEndian.Uint32(reply[16:]), "NFSACL %d", proc)
		}
	}
	compound := (&nfs4.CompoundArgs{Minor: nfs4.Minor0, N: 1}).AppendTo(nil)
	reply = callService(t, s.parts.TCP.Handler, user, 0, nfs4.Program, nfs4.Version, nfs4.ProcCompound, nfs4.AppendOp(compound, nfs4.OpPutFH, &nfs4.HandleArgs{Object: []byte(fh)}))
	require.True(t, isSuccess(reply))
	assert.NotEqualValues(t, nfs4.OK, binary.BigEndian.Uint32(reply[16:]), "PUTFH")
}

// TestUserOfListedHostLocks checks that an ordinary user of a listed host who claims to be
// its lock manager can neither release the locks and share reservations of the host's
// processes nor get others. The procedures with MSG in their names differ only in how they
// reply.
func TestUserOfListedHostLocks(t *testing.T) {
	s := startServer(t, ServerConfig{Exports: []nfsserver.Export{listedHosts(t, exports.Options{}, "192.0.2.1", "192.0.2.2")}})
	user, manager, other := peerOf("tcp", "192.0.2.1:40000"), peerOf("tcp", "192.0.2.1:700"), peerOf("tcp", "192.0.2.2:700")
	call := func(p *oncrpc.Peer, prog, vers, proc uint32, args []byte) *xdr.Reader {
		reply := callService(t, s.parts.TCP.Handler, p, 1000, prog, vers, proc, args)
		require.True(t, isSuccess(reply), "%d of version %d", proc, vers)
		r := xdr.NewReader(reply[16:])
		return &r
	}
	var mnt mount3.MntRes
	mnt.Decode(call(manager, mount3.Program, mount3.Version, mount3.ProcMnt, (&mount3.PathArgs{Path: []byte("/x")}).AppendTo(nil)))
	require.Equal(t, mount3.OK, mnt.Status)
	at := nfs3.DirOpArgs{Dir: mnt.Handle, Name: []byte("file")}
	var made nfs3.MakeRes
	made.Decode(call(manager, nfs3.Program, nfs3.Version, nfs3.ProcCreate, (&nfs3.CreateArgs{Where: at, Attr: nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: 0o666}}}).AppendTo(nil)))
	require.Equal(t, nfs3.OK, made.Status)

	lock := func(offset uint64) nlm4.Lock {
		return nlm4.Lock{Caller: []byte("client"), Handle: made.Object, Owner: []byte("process"), SVID: 1, Offset: offset, Length: 10}
	}
	share := nlm4.ShareArgs{Share: nlm4.Share{Caller: []byte("client"), Handle: made.Object, Owner: []byte("process"), Access: nlm4.Read, Deny: nlm4.Write}}
	statusOf := func(p *oncrpc.Peer, vers, proc uint32, args []byte) nlm4.Status {
		r := call(p, nlm4.Program, vers, proc, args)
		r.Opaque(nlm4.ObjectLen) // cookie
		return nlm4.Status(r.Uint32())
	}
	isFree := func(offset uint64) bool {
		a := nlm4.TestArgs{Exclusive: true, Lock: lock(offset)}
		a.Lock.Caller = []byte("other")
		return statusOf(other, nlm4.Version, nlm4.ProcTest, a.AppendTo(nil, nlm4.Version)) == nlm4.Granted
	}
	for _, vers := range []uint32{nlm4.Version1, nlm4.Version3, nlm4.Version} {
		held, wanted := lock(0), lock(10)
		require.Equal(t, nlm4.Granted, statusOf(manager, vers, nlm4.ProcLock, (&nlm4.LockArgs{Exclusive: true, Lock: held}).AppendTo(nil, vers)))
		for proc, args := range map[uint32][]byte{
			nlm4.ProcTest:   (&nlm4.TestArgs{Exclusive: true, Lock: wanted}).AppendTo(nil, vers),
			nlm4.ProcLock:   (&nlm4.LockArgs{Exclusive: true, Lock: wanted}).AppendTo(nil, vers),
			nlm4.ProcCancel: (&nlm4.CancelArgs{Exclusive: true, Lock: held}).AppendTo(nil, vers),
			nlm4.ProcUnlock: (&nlm4.UnlockArgs{Lock: held}).AppendTo(nil, vers),
			nlm4.ProcNMLock: (&nlm4.LockArgs{Exclusive: true, Lock: wanted}).AppendTo(nil, vers),
			nlm4.ProcShare:  share.AppendTo(nil, vers), nlm4.ProcUnshare: share.AppendTo(nil, vers),
		} {
			if proc >= nlm4.ProcShare && vers == nlm4.Version1 {
				continue
			}
			assert.NotEqual(t, nlm4.Granted, statusOf(user, vers, proc, args), "version %d, procedure %d", vers, proc)
			assert.False(t, isFree(0), "version %d, procedure %d", vers, proc)
			assert.True(t, isFree(10), "version %d, procedure %d", vers, proc)
		}
		if vers != nlm4.Version1 {
			call(user, nlm4.Program, vers, nlm4.ProcFreeAll, (&nlm4.Notify{Name: []byte("client")}).AppendTo(nil, vers))
		}
		assert.False(t, isFree(0), "version %d, FREE_ALL", vers)
		require.Equal(t, nlm4.Granted, statusOf(manager, vers, nlm4.ProcUnlock, (&nlm4.UnlockArgs{Lock: held}).AppendTo(nil, vers)))
		assert.True(t, isFree(0))
	}
}
