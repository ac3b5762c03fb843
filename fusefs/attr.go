package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// blockSize is the unit of st_blocks, in bytes.
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

// tell writes n's attributes for the kernel, and returns how long the kernel
// may believe them.
func (m *Mount) tell(n *node, out *fuse.Attr) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := &n.attr
	*out = fuse.Attr{
		Ino:       a.FileID,
		Size:      a.Size,
		Blocks:    (a.Used + blockSize - 1) / blockSize,
		Atime:     uint64(a.Atime.Sec),
		Mtime:     uint64(a.Mtime.Sec),
		Ctime:     uint64(a.Ctime.Sec),
		Atimensec: a.Atime.Nsec,
		Mtimensec: a.Mtime.Nsec,
		Ctimensec: a.Ctime.Nsec,
		Mode:      typeBits[a.Type] | a.Mode&0o7777,
		Nlink:     a.Nlink - min(a.Nlink, uint32(len(n.silly))),
		Owner:     fuse.Owner{Uid: a.UID, Gid: a.GID},
		Rdev:      kernelDev(a.Rdev),
		Blksize:   uint32(m.blksize),
	}
	if a.Type == nfs3.TypeReg {
		out.Size = max(out.Size, n.wrote)
	}
	n.told.size, n.told.mtime, n.told.ctime = out.Size, a.Mtime, a.Ctime
	if isSpecial(out.Mode) {
		return 0 // the kernel may know it by two numbers
	}
	life := n.freshLocked()
	n.lendLocked(life)
	return life
}

// tellEntry writes an entry for the kernel: name in dir leads to n. The entry
// says how long the kernel may believe the name and n's attributes. grant is
// the grant of dir under which the name was seen, or 0.
func (m *Mount) tellEntry(o *op, dir *node, name string, n *node, grant uint64, out *fuse.EntryOut) {
	*out = fuse.EntryOut{NodeId: n.id, Generation: 1}
	out.SetAttrTimeout(m.tell(n, &out.Attr))
	if isSpecial(out.Attr.Mode) {
		return // the kernel must look it up again as the next caller
	}
	out.SetEntryTimeout(m.nameLife(o, dir, name, grant, m.cfg.Lookup != LookupNone))
}

// nameLife returns how long the kernel may believe the object, or the absence,
// of a name in dir: as long as dir's attributes, which show changes, are
// believed. It returns 0 if not everyone may search dir. The kernel does not
// distinguish users when it walks over names, so each use must ask the server.
// If the server may delegate dir, a name must have been seen under the present
// grant, and the kernel must allow taking it back (forgetNames).
func (m *Mount) nameLife(o *op, dir *node, name string, grant uint64, keep bool) time.Duration {
	dir.mu.Lock()
	defer dir.mu.Unlock()
	switch {
	case !keep || !m.public(&dir.attr):
		return 0
	case dir.object().Types() == 0 && !m.holdable(dir):
		return dir.freshLocked()
	case !m.lends.Load() || grant == 0 || grant != dir.grant:
		return 0
	}
	l, life := &dir.asDir().loan, dir.trustLocked(delegation.Directory)
	if life == 0 || time.Until(l.shy) > 0 {
		return 0
	}
	dir.lendLocked(life)
	l.lendLocked(name, m.tick(), life)
	if thread := o.from.Pid; thread != 0 {
		m.answers.add(thread, answer{dir, o.unique, time.Now()})
	} else {
		l.names, l.many = nil, true // replies to an unseen thread cannot be tracked
	}
	return life
}

// public reports whether all users who can reach a directory may search it.
func (m *Mount) public(dir *nfs3.Attr) bool {
	return !m.cfg.AllowOther || dir.Mode&0o111 == 0o111
}

// kernelDev encodes a device number for FUSE.
func kernelDev(d nfs3.SpecData) uint32 {
	return d.Minor&0xff | d.Major&0xfff<<8 | d.Minor&^0xff<<12
}

// specData decodes a device number of FUSE.
func specData(dev uint32) nfs3.SpecData {
	return nfs3.SpecData{Major: dev >> 8 & 0xfff, Minor: dev&0xff | dev>>12&0xfff00}
}

// attributes makes sure that n's attributes are known and may be believed.
func (m *Mount) attributes(o *op, n *node) error {
	switch {
	case n.fresh() > 0:
		return nil
	case n.trusted(o, ofAttributes) && n.fresh() > 0:
		return nil
	case m.askedAgain(n) && m.acquire(o, n, ofFile) && n.fresh() > 0:
		return nil
	}
	return m.fetch(o, n)
}

// askedAgain reports whether n is a file whose attributes were fetched more
// than once without a change, at a server that delegates attributes. A
// delegation of such a file is preferred: ACQUIRE costs as much as GETATTR, and
// saves the calls after it.
func (m *Mount) askedAgain(n *node) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return m.whole.Load() && n.known && n.attr.Type == nfs3.TypeReg && n.life > m.cfg.RegMin
}

// fetch asks the server for n's attributes.
func (m *Mount) fetch(o *op, n *node) error {
	began := m.tick()
	a, err := o.c().GetAttr(o, n.fh)
	if err != nil {
		return err
	}
	m.learn(n, began, &a)
	return nil
}

// learnOrFetch is learnPost for a caller that needs n's attributes: it fetches
// them if the reply has none.
func (m *Mount) learnOrFetch(o *op, n *node, began uint64, a *nfs3.PostOpAttr) error {
	if !a.OK {
		return m.fetch(o, n)
	}
	m.learn(n, began, &a.Attr)
	return nil
}

// GetAttr implements fuse.RawFileSystem.
func (m *Mount) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := m.table.node(in.NodeId)
	if n == nil {
		return errStale
	}
	o := m.begin(cancel, &in.InHeader)
	defer m.end(o)
	// For an open file the kernel wants the end of the file before it reads
	// from its pages or seeks. That is known without the server.
	if in.Flags()&fuse.FUSE_GETATTR_FH == 0 || !n.sized() {
		if err := m.flush(o, n); err != nil {
			return m.fail(err)
		}
		if err := m.attributes(o, n); err != nil {
			return m.failOn(n, err)
		}
	}
	m.tellAttr(in.NodeId, n, out)
	return fuse.OK
}
