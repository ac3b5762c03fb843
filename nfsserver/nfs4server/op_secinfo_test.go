package nfs4server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// newExport returns the export in an exports(5) line.
func newExport(t testing.TB, fs vfs.FS, path, options string) exportset.Export {
	t.Helper()
	f, err := exports.Parse("exports", []byte(path+" *("+options+",insecure)"))
	require.NoError(t, err)
	return exportset.Export{Path: path, FS: fs, Clients: f.Exports[0].Clients}
}

// A securedServer is a server with exports for different flavors:
//
//	/
//	├─ k      krb5p, krb5i: d, d/f, f
//	│  └─ d/s sys: f
//	├─ m      krb5p, and with fewer rights sys
//	└─ s      sys, by default: f
type securedServer struct {
	*testServer
	k, kf, kd, s, sf nfs4.FH
}

func newSecuredServer(t *testing.T) *securedServer {
	systems := make(map[string]*mem.FS)
	ctx, root := context.Background(), &vfs.Cred{}
	for _, path := range []string{"/k", "/k/d/s", "/m", "/s"} {
		fs := mem.New(mem.Options{Size: 1 << 20})
		_, err := fs.SetAttr(ctx, root, fs.Root(), vfs.SetAttr{Mode: new(uint32(0o777))}, nil)
		require.NoError(t, err)
		_, err = fs.Create(ctx, root, fs.Root(), "f", vfs.CreateHow{Attr: vfs.SetAttr{Mode: new(uint32(0o666))}})
		require.NoError(t, err)
		systems[path] = fs
	}
	d, err := systems["/k"].Mkdir(ctx, root, systems["/k"].Root(), "d", vfs.SetAttr{Mode: new(uint32(0o777))})
	require.NoError(t, err)
	_, err = systems["/k"].Mkdir(ctx, root, d.Handle, "s", vfs.SetAttr{})
	require.NoError(t, err)
	_, err = systems["/k"].Create(ctx, root, d.Handle, "f", vfs.CreateHow{})
	require.NoError(t, err)
	g := &securedServer{testServer: newTestServer(t,
		newExport(t, systems["/k"], "/k", "rw,sec=krb5p:krb5i"),
		newExport(t, systems["/k/d/s"], "/k/d/s", "rw"),
		newExport(t, systems["/m"], "/m", "sec=krb5p,rw,sec=sys,ro"),
		newExport(t, systems["/s"], "/s", "rw"),
	).connectClient()}
	g.withFlavor(exports.FlavorKrb5p)
	g.k, g.kd, g.kf = g.handleAt("k"), g.handleAt("k", "d"), g.handleAt("k", "f")
	g.withFlavor(exports.FlavorSys)
	g.s, g.sf = g.handleAt("s"), g.handleAt("s", "f")
	return g
}

// withFlavor makes the next calls use a flavor.
func (g *securedServer) withFlavor(f exports.Flavor) *securedServer {
	g.cred = rpcmsg.Cred{Flavor: uint32(f), UID: 1000, GID: 1000}
	return g
}

// handleAt returns the filehandle at a path.
func (g *securedServer) handleAt(path ...string) nfs4.FH {
	g.t.Helper()
	steps := []step{putRootStep()}
	for _, name := range path {
		steps = append(steps, lookupStep(name))
	}
	var fh nfs4.HandleRes
	st, _ := g.sendSteps(append(steps, step{nfs4.OpGetFH, &void, &fh})...)
	require.Equal(g.t, nfs4.OK, st)
	return append(nfs4.FH(nil), fh.Object...)
}

var (
	up      = step{nfs4.OpLookupP, &void, new(nfs4.StatusRes)}
	save    = step{nfs4.OpSaveFH, &void, new(nfs4.StatusRes)}
	restore = step{nfs4.OpRestoreFH, &void, new(nfs4.StatusRes)}
	attrs   = step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrType)}, new(nfs4.GetAttrRes)}
)

func secInfoStep(name string) step {
	return step{nfs4.OpSecInfo, &nfs4.NameArgs{Name: []byte(name)}, new(nfs4.SecInfoRes)}
}

func secInfoNoNameStep(style uint32) step {
	return step{nfs4.OpSecInfoNoName, &nfs4.SecInfoNoNameArgs{Style: style}, new(nfs4.SecInfoRes)}
}

// openStep returns an OPEN for reading.
func openStep(claim nfs4.Claim, name string) step {
	return step{nfs4.OpOpen, &nfs4.OpenArgs{
		ShareAccess: nfs4.ShareRead, Owner: nfs4.StateOwner{Owner: []byte("o")}, How: nfs4.NoCreate, Claim: claim, Name: []byte(name),
	}, new(nfs4.OpenRes)}
}

// TestWrongSec checks which operation in a COMPOUND fails with NFS4ERR_WRONGSEC if an export
// requires other flavors than the call's. Every row is an AUTH_SYS call; sendRaw checks for
// each result that no other operation has the status (R8881-2.6.3.1.1.7-2). LOOKUPP has it too
// (R8881-18.14.3-2).
func TestWrongSec(t *testing.T) {
	g := newSecuredServer(t)
	for _, tt := range []struct {
		name  string
		steps []step
		want  nfs4.Status
		n     int // operations with results
	}{
		{"R8881-2.6.3-1 LOOKUP of an export", []step{putRootStep(), lookupStep("k")}, nfs4.ErrWrongSec, 2},
		{"R8881-2.6.3.1.1.1-1 SAVEFH is as if it were not there", []step{putStep(g.k), save, attrs}, nfs4.ErrWrongSec, 1},
		{"R8881-2.6.3.1.1.1-1 SAVEFH at the end", []step{putStep(g.k), save}, nfs4.OK, 2},
		{"R8881-2.6.3.1.1.1-1 SAVEFH, then another object", []step{putStep(g.k), save, putStep(g.s), attrs}, nfs4.OK, 4},
		{"R8881-2.6.3.1.1.1-1 SAVEFH twice", []step{putStep(g.k), save, save, lookupStep("f")}, nfs4.ErrWrongSec, 4},
		{"R8881-2.6.3.1.1.2-1 the last of several", []step{putStep(g.k), putStep(g.kf), putRootStep(), attrs}, nfs4.OK, 4},
		{"R8881-2.6.3.1.1.2-1 the last is judged", []step{putRootStep(), putStep(g.s), putStep(g.k), attrs}, nfs4.ErrWrongSec, 3},
		{"R8881-2.6.3.1.1.2-1 RESTOREFH is one", []step{putStep(g.k), save, putStep(g.s), attrs, restore, attrs}, nfs4.ErrWrongSec, 5},
		{"R8881-2.6.3.1.1.2-1 and not judged before another", []step{putStep(g.k), save, putStep(g.s), restore, putStep(g.s), attrs}, nfs4.OK, 6},
		{"R8881-2.6.3.1.1.3-1 LOOKUP of the same export", []step{putStep(g.k), lookupStep("f")}, nfs4.ErrWrongSec, 2},
		{"R8881-2.6.3.1.1.3-1 LOOKUP of what is not there", []step{putStep(g.k), lookupStep("none")}, nfs4.ErrWrongSec, 2},
		{"R8881-2.6.3.1.1.3-1 LOOKUP of an export that takes the flavour", []step{putStep(g.kd), lookupStep("s"), attrs}, nfs4.OK, 3},
		{"R8881-2.6.3.1.1.3-1 OPEN of a name", []step{putStep(g.k), openStep(nfs4.ClaimNull, "f")}, nfs4.ErrWrongSec, 2},
		{"R8881-2.6.3.1.1.4-1 LOOKUPP out of the export", []step{putStep(g.k), up, attrs}, nfs4.OK, 3},
		{"R8881-2.6.3.1.1.4-1 LOOKUPP in the export", []step{putStep(g.kd), up, attrs}, nfs4.ErrWrongSec, 2},
		{"R8881-2.6.3.1.1.4-1 LOOKUPP into the export", []step{putStep(g.kd), lookupStep("s"), up, attrs}, nfs4.ErrWrongSec, 3},
		{"R8881-2.6.3.1.1.5-1 SECINFO", []step{putStep(g.k), secInfoStep("f")}, nfs4.OK, 2},
		{"R8881-2.6.3.1.1.5-1 SECINFO of the export", []step{putRootStep(), secInfoStep("k")}, nfs4.OK, 2},
		{"R8881-2.6.3.1.1.5-1 SECINFO_NO_NAME", []step{putStep(g.kf), secInfoNoNameStep(nfs4.SecInfoCurrentFH)}, nfs4.OK, 2},
		{"R8881-2.6.3.1.1.5-1 SECINFO_NO_NAME of the parent", []step{putStep(g.kd), secInfoNoNameStep(nfs4.SecInfoParent)}, nfs4.OK, 2},
		{"R8881-2.6.3.1.1.6-1 nothing", []step{putStep(g.k)}, nfs4.OK, 1},
		{"R8881-2.6.3.1.1.7-1 anything else", []step{putStep(g.k), attrs}, nfs4.ErrWrongSec, 1},
		{"R8881-2.6.3.1.1.7-1 OPEN by filehandle", []step{putStep(g.kf), openStep(nfs4.ClaimFH, "")}, nfs4.ErrWrongSec, 1},
		{"R8881-2.6.3.1.1.8-1 consumed", []step{putStep(g.k), secInfoNoNameStep(nfs4.SecInfoCurrentFH), attrs}, nfs4.ErrNoFileHandle, 3},
		{"R8881-2.6.3.1.2-2 RENAME", []step{putStep(g.k), save, putStep(g.s), {nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("f"), New: []byte("g")}, new(nfs4.RenameRes)}}, nfs4.ErrXDev, 4},
		{"R8881-2.6.3.1.2-2 LINK", []step{putStep(g.kf), save, putStep(g.s), {nfs4.OpLink, &nfs4.NameArgs{Name: []byte("g")}, new(nfs4.ChangeRes)}}, nfs4.ErrXDev, 4},
		{"R8881-2.6.3.1.2-1 RENAME into the export", []step{putStep(g.s), save, putStep(g.k), {nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("f"), New: []byte("g")}, new(nfs4.RenameRes)}}, nfs4.ErrWrongSec, 3},
		{"CLONE", []step{putStep(g.kf), save, putStep(g.sf), {nfs4.OpClone, new(nfs4.CloneArgs), newStatusRes()}}, nfs4.ErrXDev, 4},
		{"COPY", []step{putStep(g.kf), save, putStep(g.sf), {nfs4.OpCopy, &nfs4.CopyArgs{Consecutive: true, Synchronous: true}, new(nfs4.CopyRes)}}, nfs4.ErrAccess, 4},
		{"operations behind LOOKUP", []step{putRootStep(), lookupStep("s"), lookupStep("f"), attrs}, nfs4.OK, 4},
	} {
		st, n := g.sendSteps(tt.steps...)
		assert.Equal(t, tt.want, st, tt.name)
		assert.Equal(t, tt.n, n, tt.name)
	}
}

// TestWrongSecEverywhere checks that no operation reaches an object whose export requires other
// flavors: the operation that sets its filehandle ends the COMPOUND (R8881-2.6.3.1.1.7-1), in
// each minor version (R7530-16.20-1, R7530-3.3.2-1).
func TestWrongSecEverywhere(t *testing.T) {
	g := newSecuredServer(t)
	for op := range operations {
		o := operations[op]
		if o.execute == nil || o.flags&needsCurrent == 0 || o.flags&checksSecurity != 0 {
			continue
		}
		for _, f := range []exports.Flavor{exports.FlavorSys, exports.FlavorNone, exports.FlavorKrb5} {
			g.withFlavor(f)
			if _, last, _ := nfs4.Op(op).Minors(); last > nfs4.Minor0 {
				st, n := g.sendSteps(putStep(g.kf), step{nfs4.Op(op), &void, newStatusRes()})
				assert.Equal(t, nfs4.ErrWrongSec, st, nfs4.Op(op))
				assert.Equal(t, 1, n)
			}
			if first, _, _ := nfs4.Op(op).Minors(); first == nfs4.Minor0 {
				g.minor = nfs4.Minor0
				st, _ := g.sendRaw(putStep(g.kf), step{nfs4.Op(op), &void, newStatusRes()})
				assert.Equal(t, nfs4.ErrWrongSec, st, nfs4.Op(op))
				// In NFSv4.0, SECINFO's directory stays the current filehandle.
				st, n := g.sendRaw(putStep(g.kd), secInfoStep("f"), step{nfs4.Op(op), &void, newStatusRes()})
				assert.Equal(t, nfs4.ErrNoFileHandle, st, nfs4.Op(op))
				assert.Equal(t, 3, n)
				g.minor = nfs4.Minor2
			}
		}
	}
	g.minor = nfs4.Minor0
	st, n := g.withFlavor(exports.FlavorSys).sendRaw(putStep(g.kd), secInfoStep("f"), lookupStep("f"))
	assert.Equal(t, nfs4.ErrWrongSec, st)
	assert.Equal(t, 3, n)
}

// TestSecInfoFlavors checks the lists that SECINFO and SECINFO_NO_NAME return, which are the
// same for calls with any flavor: the export's flavors, in its order (R8881-2.6.2-1,
// R8881-18.29.3-2), with Kerberos' mechanism and service and not as pseudo-flavors
// (R8881-2.2.1.1.1.2.1-1). A directory outside exports accepts what the exports below accept.
//
// R8881-18.14.3-2, R8881-18.29.3-1, R8881-18.45.3-1, R8881-7.8-2, R7530-3.2.1.1-1, R7530-3.2.1.1-2, R7530-3.3.2-1.
func TestSecInfoFlavors(t *testing.T) {
	g := newSecuredServer(t)
	oid := []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02} // 1.2.840.113554.1.2.2
	sys, krb5i, krb5p := nfs4.SecInfo{Flavor: 1}, nfs4.SecInfo{Flavor: 6, OID: oid, Service: 2}, nfs4.SecInfo{Flavor: 6, OID: oid, Service: 3}
	for _, f := range []exports.Flavor{exports.FlavorSys, exports.FlavorNone, exports.FlavorKrb5, exports.FlavorKrb5p} {
		g.withFlavor(f)
		for _, tt := range []struct {
			steps []step
			want  []nfs4.SecInfo
		}{
			{[]step{putRootStep(), secInfoStep("k")}, []nfs4.SecInfo{krb5p, krb5i}},
			{[]step{putRootStep(), secInfoStep("m")}, []nfs4.SecInfo{krb5p, sys}},
			{[]step{putRootStep(), secInfoStep("s")}, []nfs4.SecInfo{sys}},
			{[]step{putStep(g.k), secInfoStep("d")}, []nfs4.SecInfo{krb5p, krb5i}},
			{[]step{putStep(g.kd), secInfoStep("s")}, []nfs4.SecInfo{sys}},
			{[]step{putStep(g.kf), secInfoNoNameStep(nfs4.SecInfoCurrentFH)}, []nfs4.SecInfo{krb5p, krb5i}},
			{[]step{putStep(g.kd), secInfoNoNameStep(nfs4.SecInfoParent)}, []nfs4.SecInfo{krb5p, krb5i}},
			{[]step{putStep(g.k), secInfoNoNameStep(nfs4.SecInfoParent)}, []nfs4.SecInfo{krb5p, krb5i, sys}},
			{[]step{putRootStep(), secInfoNoNameStep(nfs4.SecInfoCurrentFH)}, []nfs4.SecInfo{krb5p, krb5i, sys}},
		} {
			st, _ := g.sendSteps(tt.steps...)
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, tt.want, tt.steps[1].res.(*nfs4.SecInfoRes).Flavors, f)
		}
	}
	st, _ := g.withFlavor(exports.FlavorSys).sendSteps(putStep(g.s), secInfoStep("none"))
	assert.Equal(t, nfs4.ErrNoEnt, st)
	st, _ = g.sendSteps(putRootStep(), secInfoStep("none"))
	assert.Equal(t, nfs4.ErrNoEnt, st)
	st, _ = g.sendSteps(putRootStep(), secInfoNoNameStep(nfs4.SecInfoParent))
	assert.Equal(t, nfs4.ErrNoEnt, st)
	for _, f := range parseFlavors("none:krb5:krb5i") {
		assert.Equal(t, map[exports.Flavor]nfs4.SecInfo{
			exports.FlavorNone: {}, exports.FlavorKrb5: {Flavor: 6, OID: oid, Service: 1}, exports.FlavorKrb5i: krb5i,
		}[f], toSecInfo(f))
	}
	longest := nfs4.SecInfoRes{}
	for _, f := range parseFlavors("sys:none:krb5:krb5i:krb5p") {
		longest.Flavors = append(longest.Flavors, toSecInfo(f))
	}
	assert.Len(t, longest.AppendTo(nil), secInfoLen-statusLen+4, "the status is counted, and the number of the operation before it")
}

// parseFlavors returns the flavors in the value of sec=.
func parseFlavors(value string) []exports.Flavor {
	list, err := exports.ParseFlavors(value)
	if err != nil {
		panic(err)
	}
	return list
}

// TestReadDirWrongSec checks that READDIR shows exports that require other flavors, with
// NFS4ERR_WRONGSEC only for their attributes (RFC 8881, Section 18.29.4), and that the
// operation itself has another status. All exports are shown to calls with any flavor
// (R8881-7.8-1).
func TestReadDirWrongSec(t *testing.T) {
	g := newSecuredServer(t)
	list := func(request nfs4.Bitmap) (l dirListing, st nfs4.Status) {
		st, _ = g.sendSteps(putRootStep(), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: 8000, MaxCount: 8000, Request: request}, &l})
		return l, st
	}
	l, st := list(nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrRdattrError))
	require.Equal(t, nfs4.OK, st)
	assert.ElementsMatch(t, []string{"k", "m", "s"}, l.names)
	assert.Equal(t, nfs4.ErrWrongSec, l.attrs["k"].RdattrError)
	assert.Equal(t, nfs4.BitmapOf(nfs4.AttrRdattrError), l.attrs["k"].Mask)
	assert.Equal(t, nfs4.TypeDir, l.attrs["s"].Type)
	_, st = list(nfs4.BitmapOf(nfs4.AttrType))
	assert.Equal(t, nfs4.ErrAccess, st)
	g.withFlavor(exports.FlavorKrb5p)
	l, st = list(nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrRdattrError))
	require.Equal(t, nfs4.OK, st)
	assert.ElementsMatch(t, []string{"k", "m", "s"}, l.names)
	assert.Equal(t, nfs4.TypeDir, l.attrs["k"].Type)
	assert.Equal(t, nfs4.ErrWrongSec, l.attrs["s"].RdattrError)

	g.minor = nfs4.Minor0 // R7530-16.31-3
	l = dirListing{}
	st, _ = g.sendRaw(putRootStep(), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: 8000, MaxCount: 8000, Request: nfs4.BitmapOf(nfs4.AttrRdattrError)}, &l})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.ErrWrongSec, l.attrs["s"].RdattrError)
}

// A fakeWhoFS permits everything, and notes who has asked.
type fakeWhoFS struct {
	*mem.FS
	who vfs.Cred
}

func (f *fakeWhoFS) Access(_ context.Context, c *vfs.Cred, _ vfs.Handle, want uint32) (uint32, vfs.MaybeAttr, error) {
	f.who = vfs.Cred{UID: c.UID, GID: c.GID, Groups: append([]uint32(nil), c.Groups...)}
	return want, vfs.MaybeAttr{OK: true, Attr: vfs.Attr{Type: vfs.TypeDir}}, nil
}

// TestSecurityMatrix4 checks calls with every flavor by users and by root, against exports that
// list one flavor with all combinations of rights, as the only one and before the others with
// the opposite rights. It is nfsserver.TestSecurityMatrix over NFSv4 (R7530-3.2-1).
func TestSecurityMatrix4(t *testing.T) {
	flavors := parseFlavors("sys:krb5:krb5i:krb5p:none")
	words := func(n int) string {
		w := [3]string{"rw", "root_squash", "no_all_squash"}
		for bit, other := range [3]string{"ro", "no_root_squash", "all_squash"} {
			if n&(1<<bit) != 0 {
				w[bit] = other
			}
		}
		return fmt.Sprintf("%s,%s,%s,anonuid=%d,anongid=%d", w[0], w[1], w[2], 100+n, 200+n)
	}
	for _, first := range flavors {
		for n := range 8 {
			for _, more := range []bool{false, true} {
				text := fmt.Sprintf("sec=%s,%s", first, words(n))
				listed := map[exports.Flavor]int{first: n}
				for _, f := range flavors {
					if more && f != first {
						text += fmt.Sprintf(",sec=%s,%s", f, words(7-n))
						listed[f] = 7 - n
					}
				}
				if _, ok := listed[exports.FlavorNone]; !ok {
					if rights, ok := listed[exports.FlavorSys]; ok {
						listed[exports.FlavorNone] = rights
					}
				}
				fs := &fakeWhoFS{FS: mem.New(mem.Options{Size: 1 << 20})}
				g := newTestServer(t, newExport(t, fs, "/x", text)).connectClient()
				for _, f := range flavors {
					for _, uid := range []uint32{0, 1000} {
						what := fmt.Sprintf("%s: %s %d", text, f, uid)
						g.cred = rpcmsg.Cred{Flavor: uint32(f), UID: uid, GID: uid, GIDs: []uint32{77}}
						fs.who = vfs.Cred{UID: 9}
						var res nfs4.AccessRes
						st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpAccess, &nfs4.AccessArgs{Access: nfs4.AccessRead | nfs4.AccessModify}, &res})
						rights, ok := listed[f]
						if !ok {
							assert.Equal(t, nfs4.ErrWrongSec, st, what)
							assert.EqualValues(t, 9, fs.who.UID, what)
							continue
						}
						require.Equal(t, nfs4.OK, st, what)
						assert.Equal(t, rights&1 == 0, res.Access&nfs4.AccessModify != 0, what)
						want := vfs.Cred{UID: uid, GID: uid, Groups: []uint32{77}}
						anon := vfs.Cred{UID: uint32(100 + rights), GID: uint32(200 + rights)}
						switch {
						case f == exports.FlavorNone, rights&4 != 0:
							want = anon
						case uid == 0 && rights&2 == 0:
							want.UID, want.GID = anon.UID, anon.GID
						}
						assert.Equal(t, want, fs.who, what)
					}
				}
			}
		}
	}
}

// TestSecurityTakenAway4 checks that AUTH_SYS users lose access to what they have open, once an
// export requires Kerberos.
func TestSecurityTakenAway4(t *testing.T) {
	fs := mem.New(mem.Options{Size: 1 << 20})
	g := newTestServer(t, newExport(t, fs, "/x", "rw,no_root_squash")).connectClient().becomeRoot()
	opened, file := g.openFile("f", nfs4.ShareBoth, 0)
	var read nfs4.ReadRes
	reads := []step{file, {nfs4.OpRead, &nfs4.ReadArgs{StateID: opened.StateID, Count: 9}, &read}}
	st, _ := g.sendSteps(reads...)
	require.Equal(t, nfs4.OK, st)
	require.NoError(t, g.s.exports.SetExports([]exportset.Export{newExport(t, fs, "/x", "rw,no_root_squash,sec=krb5")}))
	st, n := g.sendSteps(reads...)
	assert.Equal(t, nfs4.ErrWrongSec, st)
	assert.Equal(t, 1, n)
	st, _ = g.sendSteps(file, step{nfs4.OpClose, &nfs4.CloseArgs{StateID: opened.StateID}, new(nfs4.StateIDRes)})
	assert.Equal(t, nfs4.ErrWrongSec, st)
	g.cred.Flavor = rpcmsg.AuthKrb5
	st, _ = g.sendSteps(reads...)
	assert.Equal(t, nfs4.OK, st)
}

// TestSecurityOfWriting checks that a client whose calls are signed or encrypted gets no write
// delegation: others would see a file size that came unprotected.
func TestSecurityOfWriting(t *testing.T) {
	g, _ := newWriteDelegServer(t)
	list := g.s.exports.Exports()
	list[0].Clients = newExport(t, list[0].FS, "/x", "rw,no_root_squash,exclusive,sec=sys:krb5:krb5i:krb5p").Clients
	require.NoError(t, g.s.exports.SetExports(list))
	for f, want := range map[uint32]nfs4.Delegation{
		rpcmsg.AuthSys: nfs4.DelegateWrite, rpcmsg.AuthKrb5: nfs4.DelegateWrite,
		rpcmsg.AuthKrb5i: nfs4.DelegateNone, rpcmsg.AuthKrb5p: nfs4.DelegateNone,
	} {
		g.cred.Flavor = f
		opened, _ := g.openFile(fmt.Sprint("f", f), nfs4.ShareBoth, 0)
		assert.Equal(t, want, opened.Delegation.Type, f)
	}
}

// TestPrincipalIgnoresService checks that a client may use another Kerberos service for one
// call than for another, but no other principal's credential.
func TestPrincipalIgnoresService(t *testing.T) {
	x := &compound{call: &oncrpc.Call{Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5, UID: 5, Principal: "alice@R"}}}
	p := x.callPrincipal()
	x.call.Cred.Flavor = rpcmsg.AuthKrb5i
	assert.Equal(t, p, x.callPrincipal())
	digest := x.digestCall(nil)
	x.call.Cred.UID = 6
	assert.Equal(t, p, x.callPrincipal(), "the user of a principal may be another one tomorrow")
	assert.Equal(t, digest, x.digestCall(nil))
	x.call.Cred.Flavor = rpcmsg.AuthKrb5p
	assert.NotEqual(t, digest, x.digestCall(nil), "what was kept for a call that is encrypted is for such calls alone")
	digest = x.digestCall(nil)
	x.call.Cred.Principal = "bob@R"
	assert.NotEqual(t, p, x.callPrincipal())
	assert.NotEqual(t, digest, x.digestCall(nil))
	x.opCount = 2
	whole := x.digestCall(make([]byte, 8))
	x.call.Cred.Principal = "bo"
	assert.NotEqual(t, whole, x.digestCall(append([]byte("b@R"), make([]byte, 8)...)), "the end of a name at the beginning of the call")
	long := strings.Repeat("a", nfs4state.MaxName)
	x.call.Cred.Principal = long + "@R"
	p = x.callPrincipal()
	assert.LessOrEqual(t, len(p.Name), nfs4state.MaxName)
	x.call.Cred.Principal = long + "@S"
	assert.NotEqual(t, p, x.callPrincipal())
	x.call.Cred.Flavor, x.call.Cred.UID = rpcmsg.AuthSys, 5
	assert.NotEqual(t, p, x.callPrincipal())
	assert.Equal(t, rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 5}, minor0Cred(x.callPrincipal()))
}

// TestPrincipalsWithoutUser checks that principals without a user on this host, as all
// machines are, do not count as one: none can end the client of another, nor see a reply
// that a slot keeps for it (R8881-21-6).
func TestPrincipalsWithoutUser(t *testing.T) {
	g := newTestServer(t, newExport(t, mem.New(mem.Options{Size: 1 << 20}), "/x", "rw,sec=sys:krb5i"))
	machine := func(name string) rpcmsg.Cred {
		return rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5i, Principal: "nfs/" + name + "@R", UID: rpcmsg.Nobody, GID: rpcmsg.Nobody, Anonymous: true}
	}
	g.cred = machine("a.example")
	g.connectClient()
	other := *g
	other.cred = machine("b.example")
	_, st := other.exchangeID("client", 9, 0)
	assert.Equal(t, nfs4.ErrClidInUse, st, "another incarnation of the client, by another machine")
	g.seq++
	kept := step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq, CacheThis: true}, new(nfs4.SequenceRes)}
	for range 2 {
		st, _ = g.sendRaw(kept, putRootStep())
		assert.Equal(t, nfs4.OK, st)
	}
	st, _ = other.sendRaw(kept, putRootStep())
	assert.Equal(t, nfs4.ErrSeqFalseRetry, st, "a retry by another machine")
	g.cred.UID, g.cred.GID, g.cred.Anonymous = 1000, 1000, false
	st, _ = g.sendSteps(putRootStep())
	assert.Equal(t, nfs4.OK, st)
	_, st = g.exchangeID("client", 0, 0)
	assert.Equal(t, nfs4.OK, st, "the principal has a user now")
}
