package nfs4server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// exported returns an export of a line of exports(5).
func exported(t testing.TB, fs vfs.FS, path, options string) realm.Export {
	t.Helper()
	f, err := exports.Parse("exports", []byte(path+" *("+options+",insecure)"))
	require.NoError(t, err)
	return realm.Export{Path: path, FS: fs, Clients: f.Exports[0].Clients}
}

// A secured is a server with exports for different flavours:
//
//	/
//	├─ k      krb5p, krb5i: d, d/f, f
//	│  └─ d/s sys: f
//	├─ m      krb5p, and with fewer rights sys
//	└─ s      sys, by default: f
type secured struct {
	*rig
	k, kf, kd, s, sf nfs4.FH
}

func newSecured(t *testing.T) *secured {
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
	g := &secured{rig: newRig(t,
		exported(t, systems["/k"], "/k", "rw,sec=krb5p:krb5i"),
		exported(t, systems["/k/d/s"], "/k/d/s", "rw"),
		exported(t, systems["/m"], "/m", "sec=krb5p,rw,sec=sys,ro"),
		exported(t, systems["/s"], "/s", "rw"),
	).connect()}
	g.by(exports.FlavorKrb5p)
	g.k, g.kd, g.kf = g.handle("k"), g.handle("k", "d"), g.handle("k", "f")
	g.by(exports.FlavorSys)
	g.s, g.sf = g.handle("s"), g.handle("s", "f")
	return g
}

// by makes the next calls with a flavour.
func (g *secured) by(f exports.Flavor) *secured {
	g.cred = rpcmsg.Cred{Flavor: uint32(f), UID: 1000, GID: 1000}
	return g
}

// handle returns the filehandle at a path.
func (g *secured) handle(path ...string) nfs4.FH {
	g.t.Helper()
	steps := []step{root()}
	for _, name := range path {
		steps = append(steps, look(name))
	}
	var fh nfs4.HandleRes
	st, _ := g.do(append(steps, step{nfs4.OpGetFH, &void, &fh})...)
	require.Equal(g.t, nfs4.OK, st)
	return append(nfs4.FH(nil), fh.Object...)
}

var (
	up      = step{nfs4.OpLookupP, &void, new(nfs4.StatusRes)}
	save    = step{nfs4.OpSaveFH, &void, new(nfs4.StatusRes)}
	restore = step{nfs4.OpRestoreFH, &void, new(nfs4.StatusRes)}
	attrs   = step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrType)}, new(nfs4.GetAttrRes)}
)

func secInfoOfName(name string) step {
	return step{nfs4.OpSecInfo, &nfs4.NameArgs{Name: []byte(name)}, new(nfs4.SecInfoRes)}
}

func secInfoOfStyle(style uint32) step {
	return step{nfs4.OpSecInfoNoName, &nfs4.SecInfoNoNameArgs{Style: style}, new(nfs4.SecInfoRes)}
}

// opens returns an OPEN for reading.
func opens(claim nfs4.Claim, name string) step {
	return step{nfs4.OpOpen, &nfs4.OpenArgs{
		ShareAccess: nfs4.ShareRead, Owner: nfs4.StateOwner{Owner: []byte("o")}, How: nfs4.NoCreate, Claim: claim, Name: []byte(name),
	}, new(nfs4.OpenRes)}
}

// TestWrongSec checks which operation of a COMPOUND ends with NFS4ERR_WRONGSEC if
// an export takes other flavours than the call's. Every row is a call of AUTH_SYS;
// that no other operation has the status is checked for each result (rig.raw:
// R8881-2.6.3.1.1.7-2). LOOKUPP has it too (R8881-18.14.3-2).
func TestWrongSec(t *testing.T) {
	g := newSecured(t)
	for _, tt := range []struct {
		name  string
		steps []step
		want  nfs4.Status
		n     int // operations with results
	}{
		{"R8881-2.6.3-1 LOOKUP of an export", []step{root(), look("k")}, nfs4.ErrWrongSec, 2},
		{"R8881-2.6.3.1.1.1-1 SAVEFH is as if it were not there", []step{put(g.k), save, attrs}, nfs4.ErrWrongSec, 1},
		{"R8881-2.6.3.1.1.1-1 SAVEFH at the end", []step{put(g.k), save}, nfs4.OK, 2},
		{"R8881-2.6.3.1.1.1-1 SAVEFH, then another object", []step{put(g.k), save, put(g.s), attrs}, nfs4.OK, 4},
		{"R8881-2.6.3.1.1.1-1 SAVEFH twice", []step{put(g.k), save, save, look("f")}, nfs4.ErrWrongSec, 4},
		{"R8881-2.6.3.1.1.2-1 the last of several", []step{put(g.k), put(g.kf), root(), attrs}, nfs4.OK, 4},
		{"R8881-2.6.3.1.1.2-1 the last is judged", []step{root(), put(g.s), put(g.k), attrs}, nfs4.ErrWrongSec, 3},
		{"R8881-2.6.3.1.1.2-1 RESTOREFH is one", []step{put(g.k), save, put(g.s), attrs, restore, attrs}, nfs4.ErrWrongSec, 5},
		{"R8881-2.6.3.1.1.2-1 and not judged before another", []step{put(g.k), save, put(g.s), restore, put(g.s), attrs}, nfs4.OK, 6},
		{"R8881-2.6.3.1.1.3-1 LOOKUP of the same export", []step{put(g.k), look("f")}, nfs4.ErrWrongSec, 2},
		{"R8881-2.6.3.1.1.3-1 LOOKUP of what is not there", []step{put(g.k), look("none")}, nfs4.ErrWrongSec, 2},
		{"R8881-2.6.3.1.1.3-1 LOOKUP of an export that takes the flavour", []step{put(g.kd), look("s"), attrs}, nfs4.OK, 3},
		{"R8881-2.6.3.1.1.3-1 OPEN of a name", []step{put(g.k), opens(nfs4.ClaimNull, "f")}, nfs4.ErrWrongSec, 2},
		{"R8881-2.6.3.1.1.4-1 LOOKUPP out of the export", []step{put(g.k), up, attrs}, nfs4.OK, 3},
		{"R8881-2.6.3.1.1.4-1 LOOKUPP in the export", []step{put(g.kd), up, attrs}, nfs4.ErrWrongSec, 2},
		{"R8881-2.6.3.1.1.4-1 LOOKUPP into the export", []step{put(g.kd), look("s"), up, attrs}, nfs4.ErrWrongSec, 3},
		{"R8881-2.6.3.1.1.5-1 SECINFO", []step{put(g.k), secInfoOfName("f")}, nfs4.OK, 2},
		{"R8881-2.6.3.1.1.5-1 SECINFO of the export", []step{root(), secInfoOfName("k")}, nfs4.OK, 2},
		{"R8881-2.6.3.1.1.5-1 SECINFO_NO_NAME", []step{put(g.kf), secInfoOfStyle(nfs4.SecInfoCurrentFH)}, nfs4.OK, 2},
		{"R8881-2.6.3.1.1.5-1 SECINFO_NO_NAME of the parent", []step{put(g.kd), secInfoOfStyle(nfs4.SecInfoParent)}, nfs4.OK, 2},
		{"R8881-2.6.3.1.1.6-1 nothing", []step{put(g.k)}, nfs4.OK, 1},
		{"R8881-2.6.3.1.1.7-1 anything else", []step{put(g.k), attrs}, nfs4.ErrWrongSec, 1},
		{"R8881-2.6.3.1.1.7-1 OPEN by filehandle", []step{put(g.kf), opens(nfs4.ClaimFH, "")}, nfs4.ErrWrongSec, 1},
		{"R8881-2.6.3.1.1.8-1 consumed", []step{put(g.k), secInfoOfStyle(nfs4.SecInfoCurrentFH), attrs}, nfs4.ErrNoFileHandle, 3},
		{"R8881-2.6.3.1.2-2 RENAME", []step{put(g.k), save, put(g.s), {nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("f"), New: []byte("g")}, new(nfs4.RenameRes)}}, nfs4.ErrXDev, 4},
		{"R8881-2.6.3.1.2-2 LINK", []step{put(g.kf), save, put(g.s), {nfs4.OpLink, &nfs4.NameArgs{Name: []byte("g")}, new(nfs4.ChangeRes)}}, nfs4.ErrXDev, 4},
		{"R8881-2.6.3.1.2-1 RENAME into the export", []step{put(g.s), save, put(g.k), {nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("f"), New: []byte("g")}, new(nfs4.RenameRes)}}, nfs4.ErrWrongSec, 3},
		{"CLONE", []step{put(g.kf), save, put(g.sf), {nfs4.OpClone, new(nfs4.CloneArgs), status()}}, nfs4.ErrXDev, 4},
		{"COPY", []step{put(g.kf), save, put(g.sf), {nfs4.OpCopy, &nfs4.CopyArgs{Consecutive: true, Synchronous: true}, new(nfs4.CopyRes)}}, nfs4.ErrAccess, 4},
		{"operations behind LOOKUP", []step{root(), look("s"), look("f"), attrs}, nfs4.OK, 4},
	} {
		st, n := g.do(tt.steps...)
		assert.Equal(t, tt.want, st, tt.name)
		assert.Equal(t, tt.n, n, tt.name)
	}
}

// TestWrongSecEverywhere checks that no operation reaches an object whose export
// takes other flavours: the operation that puts its filehandle in place ends the
// COMPOUND (R8881-2.6.3.1.1.7-1), in each minor version (R7530-16.20-1, R7530-3.3.2-1).
func TestWrongSecEverywhere(t *testing.T) {
	g := newSecured(t)
	for op := range operations {
		o := operations[op]
		if o.do == nil || o.flags&needsCurrent == 0 || o.flags&judges != 0 {
			continue
		}
		for _, f := range []exports.Flavor{exports.FlavorSys, exports.FlavorNone, exports.FlavorKrb5} {
			g.by(f)
			if _, last, _ := nfs4.Op(op).Minors(); last > nfs4.Minor0 {
				st, n := g.do(put(g.kf), step{nfs4.Op(op), &void, status()})
				assert.Equal(t, nfs4.ErrWrongSec, st, nfs4.Op(op))
				assert.Equal(t, 1, n)
			}
			if first, _, _ := nfs4.Op(op).Minors(); first == nfs4.Minor0 {
				g.minor = nfs4.Minor0
				st, _ := g.raw(put(g.kf), step{nfs4.Op(op), &void, status()})
				assert.Equal(t, nfs4.ErrWrongSec, st, nfs4.Op(op))
				// In version 4.0 the directory of SECINFO stays the current filehandle.
				st, n := g.raw(put(g.kd), secInfoOfName("f"), step{nfs4.Op(op), &void, status()})
				assert.Equal(t, nfs4.ErrNoFileHandle, st, nfs4.Op(op))
				assert.Equal(t, 3, n)
				g.minor = nfs4.Minor2
			}
		}
	}
	g.minor = nfs4.Minor0
	st, n := g.by(exports.FlavorSys).raw(put(g.kd), secInfoOfName("f"), look("f"))
	assert.Equal(t, nfs4.ErrWrongSec, st)
	assert.Equal(t, 3, n)
}

// TestSecInfoFlavors checks the lists of SECINFO and SECINFO_NO_NAME, which are
// the same for calls of any flavour: the flavours of the export, in its order
// (R8881-2.6.2-1, R8881-18.29.3-2), with mechanism and service of Kerberos and not
// as pseudo-flavours (R8881-2.2.1.1.1.2.1-1). A directory of no export takes
// what the exports below take.
//
// R8881-18.14.3-2, R8881-18.29.3-1, R8881-18.45.3-1, R8881-7.8-2, R7530-3.2.1.1-1, R7530-3.2.1.1-2, R7530-3.3.2-1.
func TestSecInfoFlavors(t *testing.T) {
	g := newSecured(t)
	oid := []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02} // 1.2.840.113554.1.2.2
	sys, krb5i, krb5p := nfs4.SecInfo{Flavor: 1}, nfs4.SecInfo{Flavor: 6, OID: oid, Service: 2}, nfs4.SecInfo{Flavor: 6, OID: oid, Service: 3}
	for _, f := range []exports.Flavor{exports.FlavorSys, exports.FlavorNone, exports.FlavorKrb5, exports.FlavorKrb5p} {
		g.by(f)
		for _, tt := range []struct {
			steps []step
			want  []nfs4.SecInfo
		}{
			{[]step{root(), secInfoOfName("k")}, []nfs4.SecInfo{krb5p, krb5i}},
			{[]step{root(), secInfoOfName("m")}, []nfs4.SecInfo{krb5p, sys}},
			{[]step{root(), secInfoOfName("s")}, []nfs4.SecInfo{sys}},
			{[]step{put(g.k), secInfoOfName("d")}, []nfs4.SecInfo{krb5p, krb5i}},
			{[]step{put(g.kd), secInfoOfName("s")}, []nfs4.SecInfo{sys}},
			{[]step{put(g.kf), secInfoOfStyle(nfs4.SecInfoCurrentFH)}, []nfs4.SecInfo{krb5p, krb5i}},
			{[]step{put(g.kd), secInfoOfStyle(nfs4.SecInfoParent)}, []nfs4.SecInfo{krb5p, krb5i}},
			{[]step{put(g.k), secInfoOfStyle(nfs4.SecInfoParent)}, []nfs4.SecInfo{krb5p, krb5i, sys}},
			{[]step{root(), secInfoOfStyle(nfs4.SecInfoCurrentFH)}, []nfs4.SecInfo{krb5p, krb5i, sys}},
		} {
			st, _ := g.do(tt.steps...)
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, tt.want, tt.steps[1].res.(*nfs4.SecInfoRes).Flavors, f)
		}
	}
	st, _ := g.by(exports.FlavorSys).do(put(g.s), secInfoOfName("none"))
	assert.Equal(t, nfs4.ErrNoEnt, st)
	st, _ = g.do(root(), secInfoOfName("none"))
	assert.Equal(t, nfs4.ErrNoEnt, st)
	st, _ = g.do(root(), secInfoOfStyle(nfs4.SecInfoParent))
	assert.Equal(t, nfs4.ErrNoEnt, st)
	for _, f := range allOf("none:krb5:krb5i") {
		assert.Equal(t, map[exports.Flavor]nfs4.SecInfo{
			exports.FlavorNone: {}, exports.FlavorKrb5: {Flavor: 6, OID: oid, Service: 1}, exports.FlavorKrb5i: krb5i,
		}[f], secInfoOf(f))
	}
	longest := nfs4.SecInfoRes{}
	for _, f := range allOf("sys:none:krb5:krb5i:krb5p") {
		longest.Flavors = append(longest.Flavors, secInfoOf(f))
	}
	assert.Len(t, longest.AppendTo(nil), secInfoLen-statusLen+4, "the status is counted, and the number of the operation before it")
}

// allOf returns the flavours of the value of a sec=.
func allOf(value string) []exports.Flavor {
	list, err := exports.ParseFlavors(value)
	if err != nil {
		panic(err)
	}
	return list
}

// TestReadDirWrongSec checks that READDIR shows exports that take other flavours,
// with NFS4ERR_WRONGSEC for their attributes alone (RFC 8881, Section 18.29.4),
// and that the operation itself has another status. All exports are shown to calls of
// any flavour (R8881-7.8-1).
func TestReadDirWrongSec(t *testing.T) {
	g := newSecured(t)
	list := func(request nfs4.Bitmap) (l listing, st nfs4.Status) {
		st, _ = g.do(root(), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: 8000, MaxCount: 8000, Request: request}, &l})
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
	g.by(exports.FlavorKrb5p)
	l, st = list(nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrRdattrError))
	require.Equal(t, nfs4.OK, st)
	assert.ElementsMatch(t, []string{"k", "m", "s"}, l.names)
	assert.Equal(t, nfs4.TypeDir, l.attrs["k"].Type)
	assert.Equal(t, nfs4.ErrWrongSec, l.attrs["s"].RdattrError)

	g.minor = nfs4.Minor0 // R7530-16.31-3
	l = listing{}
	st, _ = g.raw(root(), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: 8000, MaxCount: 8000, Request: nfs4.BitmapOf(nfs4.AttrRdattrError)}, &l})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.ErrWrongSec, l.attrs["s"].RdattrError)
}

// A whoFS permits everything, and notes who has asked.
type whoFS struct {
	*mem.FS
	who vfs.Cred
}

func (f *whoFS) Access(_ context.Context, c *vfs.Cred, _ vfs.Handle, want uint32) (uint32, vfs.MaybeAttr, error) {
	f.who = vfs.Cred{UID: c.UID, GID: c.GID, Groups: append([]uint32(nil), c.Groups...)}
	return want, vfs.MaybeAttr{OK: true, Attr: vfs.Attr{Type: vfs.TypeDir}}, nil
}

// TestSecurityMatrix4 checks calls of every flavour by users and by root, against
// exports that list one flavour with all combinations of rights, alone and before
// the others with the opposite rights. It is nfsserver.TestSecurityMatrix by
// version 4 (R7530-3.2-1).
func TestSecurityMatrix4(t *testing.T) {
	flavors := allOf("sys:krb5:krb5i:krb5p:none")
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
				fs := &whoFS{FS: mem.New(mem.Options{Size: 1 << 20})}
				g := newRig(t, exported(t, fs, "/x", text)).connect()
				for _, f := range flavors {
					for _, uid := range []uint32{0, 1000} {
						what := fmt.Sprintf("%s: %s %d", text, f, uid)
						g.cred = rpcmsg.Cred{Flavor: uint32(f), UID: uid, GID: uid, GIDs: []uint32{77}}
						fs.who = vfs.Cred{UID: 9}
						var res nfs4.AccessRes
						st, _ := g.do(root(), look("x"), step{nfs4.OpAccess, &nfs4.AccessArgs{Access: nfs4.AccessRead | nfs4.AccessModify}, &res})
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

// TestSecurityTakenAway4 checks that users of AUTH_SYS are cut off from what they
// have open, once an export takes Kerberos alone.
func TestSecurityTakenAway4(t *testing.T) {
	fs := mem.New(mem.Options{Size: 1 << 20})
	g := newRig(t, exported(t, fs, "/x", "rw,no_root_squash")).connect().asRoot()
	opened, file := g.openFile("f", nfs4.ShareBoth, 0)
	var read nfs4.ReadRes
	reads := []step{file, {nfs4.OpRead, &nfs4.ReadArgs{StateID: opened.StateID, Count: 9}, &read}}
	st, _ := g.do(reads...)
	require.Equal(t, nfs4.OK, st)
	require.NoError(t, g.s.realm.SetExports([]realm.Export{exported(t, fs, "/x", "rw,no_root_squash,sec=krb5")}))
	g.s.ExportsChanged()
	st, n := g.do(reads...)
	assert.Equal(t, nfs4.ErrWrongSec, st)
	assert.Equal(t, 1, n)
	st, _ = g.do(file, step{nfs4.OpClose, &nfs4.CloseArgs{StateID: opened.StateID}, new(nfs4.StateIDRes)})
	assert.Equal(t, nfs4.ErrWrongSec, st)
	g.cred.Flavor = rpcmsg.AuthKrb5
	st, _ = g.do(reads...)
	assert.Equal(t, nfs4.OK, st)
}

// TestSecurityOfWriting checks that a client whose calls are signed or encrypted gets no
// delegation for writing: others would see a size of the file that came unprotected.
func TestSecurityOfWriting(t *testing.T) {
	g, _ := writeRig(t)
	list := g.s.realm.Exports()
	list[0].Clients = exported(t, list[0].FS, "/x", "rw,no_root_squash,exclusive,sec=sys:krb5:krb5i:krb5p").Clients
	require.NoError(t, g.s.realm.SetExports(list))
	for f, want := range map[uint32]nfs4.Delegation{
		rpcmsg.AuthSys: nfs4.DelegateWrite, rpcmsg.AuthKrb5: nfs4.DelegateWrite,
		rpcmsg.AuthKrb5i: nfs4.DelegateNone, rpcmsg.AuthKrb5p: nfs4.DelegateNone,
	} {
		g.cred.Flavor = f
		opened, _ := g.openFile(fmt.Sprint("f", f), nfs4.ShareBoth, 0)
		assert.Equal(t, want, opened.Delegation.Type, f)
	}
}

// TestPrincipalIgnoresService checks that a client may use another service of
// Kerberos for one call than for another, but no other principal's credential.
func TestPrincipalIgnoresService(t *testing.T) {
	x := &compound{call: &oncrpc.Call{Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5, UID: 5, Principal: "alice@R"}}}
	p := x.principal()
	x.call.Cred.Flavor = rpcmsg.AuthKrb5i
	assert.Equal(t, p, x.principal())
	digest := x.digest(nil)
	x.call.Cred.UID = 6
	assert.Equal(t, p, x.principal(), "the user of a principal may be another one tomorrow")
	assert.Equal(t, digest, x.digest(nil))
	x.call.Cred.Flavor = rpcmsg.AuthKrb5p
	assert.NotEqual(t, digest, x.digest(nil), "what was kept for a call that is encrypted is for such calls alone")
	digest = x.digest(nil)
	x.call.Cred.Principal = "bob@R"
	assert.NotEqual(t, p, x.principal())
	assert.NotEqual(t, digest, x.digest(nil))
	x.n = 2
	whole := x.digest(make([]byte, 8))
	x.call.Cred.Principal = "bo"
	assert.NotEqual(t, whole, x.digest(append([]byte("b@R"), make([]byte, 8)...)), "the end of a name at the beginning of the call")
	long := strings.Repeat("a", nfs4state.MaxName)
	x.call.Cred.Principal = long + "@R"
	p = x.principal()
	assert.LessOrEqual(t, len(p.Name), nfs4state.MaxName)
	x.call.Cred.Principal = long + "@S"
	assert.NotEqual(t, p, x.principal())
	x.call.Cred.Flavor, x.call.Cred.UID = rpcmsg.AuthSys, 5
	assert.NotEqual(t, p, x.principal())
	assert.Equal(t, rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 5}, plainCred(x.principal()))
}

// TestPrincipalsWithoutUser checks that principals without a user on this host, as all
// machines are, do not count as one: none can end the client of another, nor see a reply
// that a slot keeps for it (R8881-21-6).
func TestPrincipalsWithoutUser(t *testing.T) {
	g := newRig(t, exported(t, mem.New(mem.Options{Size: 1 << 20}), "/x", "rw,sec=sys:krb5i"))
	machine := func(name string) rpcmsg.Cred {
		return rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5i, Principal: "nfs/" + name + "@R", UID: rpcmsg.Nobody, GID: rpcmsg.Nobody, Anonymous: true}
	}
	g.cred = machine("a.example")
	g.connect()
	other := *g
	other.cred = machine("b.example")
	_, st := other.exchange("client", 9, 0)
	assert.Equal(t, nfs4.ErrClidInUse, st, "another incarnation of the client, by another machine")
	g.seq++
	kept := step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq, CacheThis: true}, new(nfs4.SequenceRes)}
	for range 2 {
		st, _ = g.raw(kept, root())
		assert.Equal(t, nfs4.OK, st)
	}
	st, _ = other.raw(kept, root())
	assert.Equal(t, nfs4.ErrSeqFalseRetry, st, "a retry by another machine")
	g.cred.UID, g.cred.GID, g.cred.Anonymous = 1000, 1000, false
	st, _ = g.do(root())
	assert.Equal(t, nfs4.OK, st)
	_, st = g.exchange("client", 0, 0)
	assert.Equal(t, nfs4.OK, st, "the principal has got a user meanwhile")
}
