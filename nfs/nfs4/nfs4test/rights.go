package nfs4test

import (
	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// by returns a session of a new client whose calls are made by a user.
func (t *T) by(uid uint32, groups ...uint32) *session {
	c := t.dial().as(uid)
	c.cred.GIDs = groups
	return c.client(t.unique()).session().ready()
}

// refused are the statuses for a caller without the rights.
var refused = []nfs4.Status{nfs4.ErrAccess, nfs4.ErrPerm}

// rights are scenarios of callers with some rights.
var rights = []Scenario{
	{Name: "a sticky directory", By: "RFC 8881, 15.1.6.1, 15.1.6.2: NFS4ERR_ACCESS or NFS4ERR_PERM", run: func(t *T) {
		dir := t.make(create(nfs4.TypeDir, "sticky", mode(0o1777)), putFH(t.dir()))
		t.want(nfs4.OK, putFH(dir), create(nfs4.TypeFIFO, "p", mode(0o666)))
		other := t.by(7)
		other.oneOf(refused, putFH(dir), remove("p"))
		other.oneOf(refused, putFH(dir), saveFH(), rename("p", "q"))
		other.want(nfs4.OK, putFH(dir), create(nfs4.TypeFIFO, "own", mode(0o666)))
		other.want(nfs4.OK, putFH(dir), saveFH(), rename("own", "mine"))
		other.oneOf(refused, putFH(dir), saveFH(), rename("mine", "p"))
		other.want(nfs4.OK, putFH(dir), remove("mine"))
	}},
	{Name: "LINK without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		dir := t.make(create(nfs4.TypeDir, "private", mode(0o755)), putFH(t.dir()))
		t.by(7).want(nfs4.ErrAccess, putFH(fh), saveFH(), putFH(dir), link("l"))
		t.want(nfs4.ErrNoEnt, putFH(dir), lookup("l"))
	}},
	{Name: "SETATTR of the size without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		f := t.file("f", "data")
		t.want(nfs4.OK, putFH(f.fh), setAttr(nfs4.StateID{}, mode(0o644)))
		t.by(7).oneOf(refused, putFH(f.fh), setAttr(nfs4.AnonymousStateID, sized(0)))
		assert.EqualValues(t, 4, t.attrsOf(f.fh, nfs4.AttrSize).Size)
	}},
	{Name: "SETATTR of times by those who may write and by others", By: "RFC 8881, 15.1.6: as POSIX has it", run: func(t *T) {
		fh := t.object(nfs4.TypeReg, "f") // of mode 0666
		now := attrs(nil, nfs4.AttrTimeModifySet)
		other := t.by(7)
		other.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, attrs(nil, nfs4.AttrTimeModifySet, nfs4.AttrTimeAccessSet)))
		set := attrs(func(a *nfs4.Attrs) { a.TimeModifySet = nfs4.SetTime{Client: true, Time: nfs4.Time{Sec: 1}} }, nfs4.AttrTimeModifySet)
		other.oneOf(refused, putFH(fh), setAttr(nfs4.StateID{}, set))
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, mode(0o644)))
		other.oneOf(refused, putFH(fh), setAttr(nfs4.StateID{}, now))
	}},
	{Name: "rights by a further group", By: "RFC 5531, Appendix A: gids of AUTH_SYS", run: func(t *T) {
		f := t.file("f", "data")
		set := attrs(func(a *nfs4.Attrs) { a.Mode, a.OwnerGroup = 0o640, []byte("55") }, nfs4.AttrMode, nfs4.AttrOwnerGroup)
		t.want(nfs4.OK, putFH(f.fh), setAttr(nfs4.StateID{}, set))
		var res nfs4.ReadRes
		groups := []uint32{40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55}
		t.by(7, groups...).want(nfs4.OK, putFH(f.fh), read(nfs4.AnonymousStateID, 0, 10, &res))
		assert.Equal(t, "data", string(res.Data))
		t.by(7, groups[:15]...).want(nfs4.ErrAccess, putFH(f.fh), read(nfs4.AnonymousStateID, 0, 10, &res))
	}},
	{Name: "the owner and group of what a user makes", By: "RFC 8881, 18.4.3, 18.16.3: the server MUST derive them", run: func(t *T) {
		s := t.by(7)
		var attr nfs4.GetAttrRes
		s.want(nfs4.OK, putFH(t.dir()), create(nfs4.TypeDir, "d", mode(0o755)), getAttr(&attr, nfs4.AttrOwner, nfs4.AttrOwnerGroup))
		assert.Equal(t, "7 7", string(attr.Attrs.Owner)+" "+string(attr.Attrs.OwnerGroup))
		s.want(nfs4.OK, putFH(t.dir()), created("f"), getAttr(&attr, nfs4.AttrOwner, nfs4.AttrOwnerGroup))
		assert.Equal(t, "7 7", string(attr.Attrs.Owner)+" "+string(attr.Attrs.OwnerGroup))
	}},
	{Name: "a user makes what would be another's", By: "RFC 8881, 18.4.3, 18.16.3: the server may return NFS4ERR_PERM", run: func(t *T) {
		s := t.by(7)
		other := attrs(func(a *nfs4.Attrs) { a.Owner = []byte("8") }, nfs4.AttrOwner)
		for name, o := range map[string]op{
			"d": create(nfs4.TypeDir, "d", other), "f": open(creating(openName("f", "a", 3, 0), nfs4.Guarded, other), new(nfs4.OpenRes)),
		} {
			var attr nfs4.GetAttrRes
			switch rep := s.do(putFH(t.dir()), o, getAttr(&attr, nfs4.AttrOwner)); rep.status {
			case nfs4.OK:
				assert.Equal(t, "7", string(attr.Attrs.Owner))
			default:
				assert.Equal(t, nfs4.ErrPerm, rep.status)
				t.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup(name))
			}
		}
	}},
	{Name: "a device made by a user", By: "RFC 8881, 15.1.6: NFS4ERR_PERM or NFS4ERR_ACCESS", run: func(t *T) {
		s := t.by(7)
		for _, kind := range []nfs4.FileType{nfs4.TypeBlk, nfs4.TypeChr} {
			s.oneOf(refused, putFH(t.dir()), create(kind, "dev", mode(0o600)))
		}
		s.want(nfs4.OK, putFH(t.dir()), create(nfs4.TypeFIFO, "pipe", mode(0o600)))
		s.want(nfs4.OK, putFH(t.dir()), create(nfs4.TypeSock, "socket", mode(0o600)))
	}},
	{Name: "exclusive creation over objects of each type", By: "RFC 8881, 18.16.3: NFS4ERR_EXIST", run: func(t *T) {
		t.each(func(name string, _ nfs4.FileType, _ nfs4.FH) {
			for _, how := range []nfs4.CreateMode{nfs4.Guarded, nfs4.Exclusive, nfs4.Exclusive1} {
				a := exclusively(openName("of type "+name, "a", nfs4.ShareBoth, 0), how, verf, nfs4.Attrs{})
				rep := t.session().do(putFH(t.dir()), open(a, new(nfs4.OpenRes)))
				assert.Equal(t, nfs4.ErrExist, rep.status, "a %s", name)
			}
		})
	}},
	{Name: "offsets beyond 32 bits", By: "RFC 8881, 18.22, 18.30, 18.32", Linux: "READ has zeros in place of data that lie in two pages", run: func(t *T) {
		f := t.file("f", "")
		for _, off := range []uint64{1<<31 - 2, 1<<32 - 2, 1 << 33, 1 << 40} {
			var res nfs4.ReadRes
			t.want(nfs4.OK, putFH(f.fh), write(f.id, off, nfs4.Unstable, "data", new(nfs4.WriteRes)), read(f.id, off-2, 10, &res))
			assert.Equal(t, "\x00\x00data", string(res.Data))
			assert.Equal(t, off+4, t.attrsOf(f.fh, nfs4.AttrSize).Size)
			t.want(nfs4.OK, putFH(f.fh), commit(off, 4, new(nfs4.CommitRes)), setAttr(f.id, sized(off+2)))
			assert.Equal(t, off+2, t.attrsOf(f.fh, nfs4.AttrSize).Size)
		}
		t.want(nfs4.OK, putFH(f.fh), setAttr(f.id, sized(0)))
	}},
}
