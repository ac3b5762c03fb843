package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// crossedBit marks the inode numbers of objects outside the root's file system.
const crossedBit = 1 << 63

// inodeOf returns the inode number of an object outside the root's file system. A
// mount has one st_dev, but a server may cross file systems below an export, and
// their file numbers repeat. Two objects with equal numbers look like one file with
// two names, or like a directory that contains itself: programs then omit data.
// Each bit of the result depends on each bit of both numbers, so two among n
// objects collide with probability n²/2⁶⁴.
func inodeOf(fsid, fileID uint64) uint64 {
	return mix64(mix64(fsid)+fileID) | crossedBit
}

// mix64 is the finalizer from the SplitMix64 generator (Steele, Lea and Flood,
// 2014), which is a bijection.
func mix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// recordFSLocked records whether n, whose attributes are about to be stored, is in
// the root's file system. A file handle stays in its file system, so for a known
// node another FSID means only that the server has renumbered its file systems.
func (m *Mount) recordFSLocked(n *node, a *nfs3.Attr) {
	switch {
	case n.id == fuse.FUSE_ROOT_ID:
		m.fsid.Store(a.FSID)
	case !n.known:
		n.crossed = a.FSID != m.fsid.Load()
	}
}

// inodeLocked returns n's inode number.
func (n *node) inodeLocked() uint64 {
	if n.crossed {
		return inodeOf(n.attr.FSID, n.attr.FileID)
	}
	return n.attr.FileID
}

// numberEntries replaces the file numbers in a listing of dir with inode numbers.
// An entry without attributes is in dir's file system.
func (m *Mount) numberEntries(dir *node, p *page) {
	dir.mu.Lock()
	crossed, fsid := dir.crossed, dir.attr.FSID
	if !dir.known {
		fsid = m.fsid.Load()
	}
	dir.mu.Unlock()
	for i := range p.entries {
		e := &p.entries[i]
		in, other := fsid, crossed
		if e.attr.OK && e.attr.Attr.FSID != fsid {
			in = e.attr.Attr.FSID
			other = in != m.fsid.Load()
		}
		if e.attr.OK {
			e.id = e.attr.Attr.FileID
		}
		if other {
			e.id = inodeOf(in, e.id)
		}
	}
}
