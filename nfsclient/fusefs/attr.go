package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// blockSize is the unit for st_blocks, in bytes.
const blockSize = 512

var typeBits = map[nfs3.Type]uint32{
	nfs3.TypeReg:  unix.S_IFREG,
	nfs3.TypeDir:  unix.S_IFDIR,
	nfs3.TypeBlk:  unix.S_IFBLK,
	nfs3.TypeChr:  unix.S_IFCHR,
	nfs3.TypeLnk:  unix.S_IFLNK,
	nfs3.TypeSock: unix.S_IFSOCK,
	nfs3.TypeFIFO: unix.S_IFIFO,
}

// fillAttr writes n's attributes for the kernel, and returns how long the kernel
// may cache them.
func (m *Mount) fillAttr(n *node, out *fuse.Attr) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := &n.attr
	*out = fuse.Attr{
		Ino:       n.inodeLocked(),
		Size:      a.Size,
		Blocks:    (a.Used + blockSize - 1) / blockSize,
		Atime:     uint64(a.Atime.Sec),
		Mtime:     uint64(a.Mtime.Sec),
		Ctime:     uint64(a.Ctime.Sec),
		Atimensec: a.Atime.Nsec,
		Mtimensec: a.Mtime.Nsec,
		Ctimensec: a.Ctime.Nsec,
		Mode:      typeBits[a.Type] | a.Mode&0o7777,
		Nlink:     a.Nlink - min(a.Nlink, uint32(len(n.sillyNames))),
		Owner:     fuse.Owner{Uid: a.UID, Gid: a.GID},
		Rdev:      encodeDev(a.Rdev),
		Blksize:   uint32(m.blksize),
	}
	if a.Type == nfs3.TypeReg {
		out.Size = n.writtenStampLocked().Size
	}
	n.toldStamp = n.writtenStampLocked()
	if isSpecial(out.Mode) {
		return 0 // the kernel may know it by two numbers
	}
	life := n.freshTimeLocked()
	n.extendLentLocked(life)
	n.trustedUntil.set(life)
	return life
}

// fillEntry writes an entry for the kernel: name in dir leads to n. The entry
// limits how long the kernel may cache the name and n's attributes. grant is the
// grant for dir under which the name was seen, or 0.
func (m *Mount) fillEntry(o *op, dir *node, name string, n *node, grant uint64, out *fuse.EntryOut) {
	*out = fuse.EntryOut{NodeId: n.id, Generation: 1}
	if n.hasOutdatedPages() {
		m.showChange(n)
	}
	out.SetAttrTimeout(m.fillAttr(n, &out.Attr))
	if isSpecial(out.Attr.Mode) {
		return // the kernel must look it up again for the next caller
	}
	out.SetEntryTimeout(m.nameLifetime(o, dir, name, grant, m.cfg.Lookup != LookupNone))
}

// nameLifetime returns how long the kernel may cache the object, or the absence, of
// a name in dir: as long as dir's attributes, which show changes, are valid. It
// returns 0 if not everyone may search dir. The kernel does not distinguish users
// when it walks over names, so each use must go to the server. If the server may
// delegate dir, the name must have been seen under the current grant, and the
// kernel must be able to drop it (recallLentNames).
func (m *Mount) nameLifetime(o *op, dir *node, name string, grant uint64, keep bool) time.Duration {
	dir.mu.Lock()
	defer dir.mu.Unlock()
	switch {
	case !keep || !m.isPublicDir(&dir.attr):
		return 0
	case dir.delegationObject().Types() == 0 && !m.isDelegatable(dir):
		return dir.freshTimeLocked()
	case !m.lendsNames.Load() || grant == 0 || grant != dir.grant:
		return 0
	}
	l, life := &dir.directoryState().loan, dir.trustTimeLocked(delegation.Directory)
	if life == 0 || time.Until(l.notBefore) > 0 {
		return 0
	}
	dir.extendLentLocked(life)
	l.lendNameLocked(name, m.nextTick(), life)
	if thread := o.from.Pid; thread != 0 {
		m.nameReplies.add(thread, nameReply{dir, o.unique, time.Now()})
	} else {
		l.names, l.tooMany = nil, true // replies to an unseen thread cannot be tracked
	}
	return life
}

// isPublicDir reports whether all users who can reach a directory may search it.
func (m *Mount) isPublicDir(dir *nfs3.Attr) bool {
	return !m.cfg.AllowOther || dir.Mode&0o111 == 0o111
}

// encodeDev encodes a device number for FUSE.
func encodeDev(d nfs3.SpecData) uint32 {
	return d.Minor&0xff | d.Major&0xfff<<8 | d.Minor&^0xff<<12
}

// decodeDev decodes a FUSE device number.
func decodeDev(dev uint32) nfs3.SpecData {
	return nfs3.SpecData{Major: dev >> 8 & 0xfff, Minor: dev&0xff | dev>>12&0xfff00}
}

// ensureAttr makes sure that n's attributes are known and valid.
func (m *Mount) ensureAttr(o *op, n *node) error {
	switch {
	case n.freshTime() > 0:
		return nil
	case n.ensureTrusted(o, attrTypes) && n.freshTime() > 0:
		return nil
	case m.wasRefetched(n):
		// The reply tells the kernel about any change. After a notification, the
		// kernel would ignore the attributes in this older reply.
		if held, _ := m.requestDelegation(o, n, fileTypes); held && n.freshTime() > 0 {
			return nil
		}
	}
	return m.fetchAttr(o, n)
}

// wasRefetched reports whether n is a file whose attributes were fetched more than
// once without a change, at a server that delegates attributes. A delegation of
// such a file is better: ACQUIRE costs as much as GETATTR, and saves the calls
// after it.
func (m *Mount) wasRefetched(n *node) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return m.grantsAttr.Load() && n.known && n.attr.Type == nfs3.TypeReg && n.lifetime > m.cfg.RegMin
}

// fetchAttr fetches n's attributes from the server.
func (m *Mount) fetchAttr(o *op, n *node) error {
	began := m.nextTick()
	a, err := o.callerClient().GetAttr(o, n.fh)
	if err != nil {
		return err
	}
	m.learnAttr(n, began, &a)
	return nil
}

// learnOrFetchAttr stores the attributes from a reply, and fetches them if the
// reply has none.
func (m *Mount) learnOrFetchAttr(o *op, n *node, began uint64, a *nfs3.PostOpAttr) error {
	if !a.OK {
		return m.fetchAttr(o, n)
	}
	m.learnAttr(n, began, &a.Attr)
	return nil
}

// GetAttr implements fuse.RawFileSystem.
func (m *Mount) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := m.table.findNode(in.NodeId)
	if n == nil {
		return errStale
	}
	o := m.beginRequest(cancel, &in.InHeader)
	defer m.endRequest(o)
	// For an open file the kernel wants the end of the file before it reads
	// from its pages or seeks. That is known without the server.
	if in.Flags()&fuse.FUSE_GETATTR_FH == 0 || !n.hasKnownSize() {
		if err := m.flushData(o, n); err != nil {
			return m.errorStatus(err)
		}
		ask := m.ensureAttr
		if n.trustedUntil.isFuture() && !n.ensureTrusted(o, attrTypes) {
			ask = m.fetchAttr // AT_STATX_FORCE_SYNC
		}
		if err := ask(o, n); err != nil {
			return m.nodeErrorStatus(n, err)
		}
	}
	if n.hasOutdatedPages() && !m.showChange(n) {
		m.dropPages(n)
	}
	m.fillAttrOut(in.NodeId, n, out)
	return fuse.OK
}
