package nfs4test

import (
	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// sessionAs creates a client and a session that send calls as a user.
func (t *T) sessionAs(uid uint32, groups ...uint32) *session {
	c := t.dial().withUID(uid)
	c.cred.GIDs = groups
	return c.newClientID(t.uniqueName()).newSession().completeReclaim()
}

// denialStatuses are the valid statuses if the caller lacks permission.
var denialStatuses = []nfs4.Status{nfs4.ErrAccess, nfs4.ErrPerm}

// rights are scenarios for callers with different permissions.
var rights = []Scenario{
	{Name: "a sticky directory", By: "RFC 8881, 15.1.6.1, 15.1.6.2: NFS4ERR_ACCESS or NFS4ERR_PERM", run: func(t *T) {
		dir := t.createObject(createOp(nfs4.TypeDir, "sticky", modeAttrs(0o1777)), putFH(t.ownDir()))
		t.expectStatus(nfs4.OK, putFH(dir), createOp(nfs4.TypeFIFO, "p", modeAttrs(0o666)))
		other := t.sessionAs(7)
		other.expectOneOf(denialStatuses, putFH(dir), removeOp("p"))
		other.expectOneOf(denialStatuses, putFH(dir), saveFH(), renameOp("p", "q"))
		other.expectStatus(nfs4.OK, putFH(dir), createOp(nfs4.TypeFIFO, "own", modeAttrs(0o666)))
		other.expectStatus(nfs4.OK, putFH(dir), saveFH(), renameOp("own", "mine"))
		other.expectOneOf(denialStatuses, putFH(dir), saveFH(), renameOp("mine", "p"))
		other.expectStatus(nfs4.OK, putFH(dir), removeOp("mine"))
	}},
	{Name: "LINK without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		dir := t.createObject(createOp(nfs4.TypeDir, "private", modeAttrs(0o755)), putFH(t.ownDir()))
		t.sessionAs(7).expectStatus(nfs4.ErrAccess, putFH(fh), saveFH(), putFH(dir), linkOp("l"))
		t.expectStatus(nfs4.ErrNoEnt, putFH(dir), lookupOp("l"))
	}},
	{Name: "SETATTR of the size without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		f := t.newFile("f", "data")
		t.expectStatus(nfs4.OK, putFH(f.fh), setAttr(nfs4.StateID{}, modeAttrs(0o644)))
		t.sessionAs(7).expectOneOf(denialStatuses, putFH(f.fh), setAttr(nfs4.AnonymousStateID, sizeAttrs(0)))
		assert.EqualValues(t, 4, t.getAttrs(f.fh, nfs4.AttrSize).Size)
	}},
	{Name: "SETATTR of times by those who may write and by others", By: "RFC 8881, 15.1.6: as POSIX has it", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f") // mode 0666
		now := newAttrs(nil, nfs4.AttrTimeModifySet)
		other := t.sessionAs(7)
		other.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, newAttrs(nil, nfs4.AttrTimeModifySet, nfs4.AttrTimeAccessSet)))
		set := newAttrs(func(a *nfs4.Attrs) { a.TimeModifySet = nfs4.SetTime{Client: true, Time: nfs4.Time{Sec: 1}} }, nfs4.AttrTimeModifySet)
		other.expectOneOf(denialStatuses, putFH(fh), setAttr(nfs4.StateID{}, set))
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, modeAttrs(0o644)))
		other.expectOneOf(denialStatuses, putFH(fh), setAttr(nfs4.StateID{}, now))
	}},
	{Name: "rights by a further group", By: "RFC 5531, Appendix A: gids of AUTH_SYS", run: func(t *T) {
		f := t.newFile("f", "data")
		set := newAttrs(func(a *nfs4.Attrs) { a.Mode, a.OwnerGroup = 0o640, []byte("55") }, nfs4.AttrMode, nfs4.AttrOwnerGroup)
		t.expectStatus(nfs4.OK, putFH(f.fh), setAttr(nfs4.StateID{}, set))
		var res nfs4.ReadRes
		groups := []uint32{40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55}
		t.sessionAs(7, groups...).expectStatus(nfs4.OK, putFH(f.fh), readOp(nfs4.AnonymousStateID, 0, 10, &res))
		assert.Equal(t, "data", string(res.Data))
		t.sessionAs(7, groups[:15]...).expectStatus(nfs4.ErrAccess, putFH(f.fh), readOp(nfs4.AnonymousStateID, 0, 10, &res))
	}},
	{Name: "the owner and group of what a user makes", By: "RFC 8881, 18.4.3, 18.16.3: the server MUST derive them", run: func(t *T) {
		s := t.sessionAs(7)
		var attr nfs4.GetAttrRes
		s.expectStatus(nfs4.OK, putFH(t.ownDir()), createOp(nfs4.TypeDir, "d", modeAttrs(0o755)), getAttr(&attr, nfs4.AttrOwner, nfs4.AttrOwnerGroup))
		assert.Equal(t, "7 7", string(attr.Attrs.Owner)+" "+string(attr.Attrs.OwnerGroup))
		s.expectStatus(nfs4.OK, putFH(t.ownDir()), openCreateOp("f"), getAttr(&attr, nfs4.AttrOwner, nfs4.AttrOwnerGroup))
		assert.Equal(t, "7 7", string(attr.Attrs.Owner)+" "+string(attr.Attrs.OwnerGroup))
	}},
	{Name: "a user makes what would be another's", By: "RFC 8881, 18.4.3, 18.16.3: the server may return NFS4ERR_PERM", run: func(t *T) {
		s := t.sessionAs(7)
		other := newAttrs(func(a *nfs4.Attrs) { a.Owner = []byte("8") }, nfs4.AttrOwner)
		for name, o := range map[string]op{
			"d": createOp(nfs4.TypeDir, "d", other), "f": openOp(withCreate(openName("f", "a", 3, 0), nfs4.Guarded, other), new(nfs4.OpenRes)),
		} {
			var attr nfs4.GetAttrRes
			switch rep := s.callWithSequence(putFH(t.ownDir()), o, getAttr(&attr, nfs4.AttrOwner)); rep.status {
			case nfs4.OK:
				assert.Equal(t, "7", string(attr.Attrs.Owner))
			default:
				assert.Equal(t, nfs4.ErrPerm, rep.status)
				t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp(name))
			}
		}
	}},
	{Name: "a device made by a user", By: "RFC 8881, 15.1.6: NFS4ERR_PERM or NFS4ERR_ACCESS", run: func(t *T) {
		s := t.sessionAs(7)
		for _, kind := range []nfs4.FileType{nfs4.TypeBlk, nfs4.TypeChr} {
			s.expectOneOf(denialStatuses, putFH(t.ownDir()), createOp(kind, "dev", modeAttrs(0o600)))
		}
		s.expectStatus(nfs4.OK, putFH(t.ownDir()), createOp(nfs4.TypeFIFO, "pipe", modeAttrs(0o600)))
		s.expectStatus(nfs4.OK, putFH(t.ownDir()), createOp(nfs4.TypeSock, "socket", modeAttrs(0o600)))
	}},
	{Name: "exclusive creation over objects of each type", By: "RFC 8881, 18.16.3: NFS4ERR_EXIST", run: func(t *T) {
		t.forEachType(func(name string, _ nfs4.FileType, _ nfs4.FH) {
			for _, how := range []nfs4.CreateMode{nfs4.Guarded, nfs4.Exclusive, nfs4.Exclusive1} {
				a := exclusiveOpen(openName("of type "+name, "a", nfs4.ShareBoth, 0), how, exclusiveVerf, nfs4.Attrs{})
				rep := t.ownSession().callWithSequence(putFH(t.ownDir()), openOp(a, new(nfs4.OpenRes)))
				assert.Equal(t, nfs4.ErrExist, rep.status, "a %s", name)
			}
		})
	}},
	{Name: "offsets beyond 32 bits", By: "RFC 8881, 18.22, 18.30, 18.32", Linux: "READ has zeros in place of data that lie in two pages", run: func(t *T) {
		f := t.newFile("f", "")
		for _, off := range []uint64{1<<31 - 2, 1<<32 - 2, 1 << 33, 1 << 40} {
			var res nfs4.ReadRes
			t.expectStatus(nfs4.OK, putFH(f.fh), writeOp(f.id, off, nfs4.Unstable, "data", new(nfs4.WriteRes)), readOp(f.id, off-2, 10, &res))
			assert.Equal(t, "\x00\x00data", string(res.Data))
			assert.Equal(t, off+4, t.getAttrs(f.fh, nfs4.AttrSize).Size)
			t.expectStatus(nfs4.OK, putFH(f.fh), commitOp(off, 4, new(nfs4.CommitRes)), setAttr(f.id, sizeAttrs(off+2)))
			assert.Equal(t, off+2, t.getAttrs(f.fh, nfs4.AttrSize).Size)
		}
		t.expectStatus(nfs4.OK, putFH(f.fh), setAttr(f.id, sizeAttrs(0)))
	}},
}
