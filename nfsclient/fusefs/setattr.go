package fusefs

import (
	"math"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// SetAttr implements fuse.RawFileSystem.
func (m *Mount) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := m.table.findNode(in.NodeId)
	if n == nil {
		return errStale
	}
	o := m.beginRequest(cancel, &in.InHeader)
	defer m.endRequest(o)
	o.recordMayChange(n)
	s, who := wantedAttr(in), o.requestCaller()
	if f := m.files.findFile(in.Fh); in.Valid&fuse.FATTR_FH != 0 && f != nil {
		who = f.who // ftruncate: the opener's rights apply
	} else if s.Size.Set && isSubstitute(in.NodeId) {
		return fuse.EINVAL // the kernel's own error for an object that is not a file
	} else if s.Size.Set {
		if status := m.checkTruncate(o, n); status != fuse.OK {
			return status
		}
	}
	if s != (nfs3.SetAttr{}) {
		if err := m.setAttr(o, n, who, &s); err != nil {
			return m.nodeErrorStatus(n, err)
		}
	}
	if !n.hasLatestAttr() {
		if err := m.fetchAttr(o, n); err != nil {
			return m.nodeErrorStatus(n, err)
		}
	}
	m.fillAttrOut(in.NodeId, n, out)
	return fuse.OK
}

// checkTruncate checks that the caller may set n's size by name. truncate(2)
// requires write permission even for a file's owner, for whom servers do not
// require it.
func (m *Mount) checkTruncate(o *op, n *node) fuse.Status {
	rights := openRights(unix.O_WRONLY)
	switch allowed, err := m.checkRights(o, n, rights, 0); {
	case err != nil:
		return m.nodeErrorStatus(n, err)
	case allowed != rights:
		return errAccess
	}
	return fuse.OK
}

// wantedAttr returns the changes that the kernel requests. If the kernel requests
// the current time, the server's time is used.
func wantedAttr(in *fuse.SetAttrIn) (s nfs3.SetAttr) {
	s.Mode.Value, s.Mode.Set = in.GetMode()
	s.UID.Value, s.UID.Set = in.GetUID()
	s.GID.Value, s.GID.Set = in.GetGID()
	s.Size.Value, s.Size.Set = in.GetSize()
	// Unset fields have value 0, so that a request without changes is the zero
	// value.
	for _, v := range []*nfs3.OptUint32{&s.Mode, &s.UID, &s.GID} {
		if !v.Set {
			v.Value = 0
		}
	}
	s.Atime = wantedTime(in.Valid, fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec)
	s.Mtime = wantedTime(in.Valid, fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec)
	return s
}

// wantedTime returns the change for one time stamp. NFS cannot express times before
// 1970 and after 2106; the nearest is used.
func wantedTime(valid, set, now uint32, sec uint64, nsec uint32) nfs3.SetTime {
	switch {
	case valid&set == 0:
		return nfs3.SetTime{}
	case valid&now != 0:
		return nfs3.SetTime{How: nfs3.SetToServerTime}
	case int64(sec) < 0:
		return nfs3.SetTime{How: nfs3.SetToClientTime}
	case sec > math.MaxUint32:
		return nfs3.SetTime{How: nfs3.SetToClientTime, Time: nfs3.Time{Sec: math.MaxUint32}}
	}
	return nfs3.SetTime{How: nfs3.SetToClientTime, Time: nfs3.Time{Sec: uint32(sec), Nsec: nsec}}
}

// setAttr changes attributes. Data written before must not reach the server
// after the change, nor be sent again when the server loses them: they would
// undo the change. If such data are lost, fsync and close report the loss.
func (m *Mount) setAttr(o *op, n *node, who *caller, s *nfs3.SetAttr) error {
	if err := m.syncData(o, n); err != nil {
		return err
	}
	began := m.nextTick()
	wcc, err := who.client.SetAttr(o, &nfs3.SetAttrArgs{Object: n.fh, Attr: *s})
	markIfUncertain(err, n)
	if err != nil {
		m.invalidateAttr(n)
		return err
	}
	m.learnAfterChange(n, began, &wcc.After)
	if s.Size.Set {
		m.recordSize(n, s.Size.Value)
	} else {
		n.recordOwnChange(&wcc)
	}
	return nil
}

// recordSize records that n is size bytes long, for the kernel too.
func (m *Mount) recordSize(n *node, size uint64) {
	now := m.nextTick()
	if p := n.pending.Load(); p != nil && size == 0 {
		p.losses.markTruncated()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.writtenEnd, n.toldStamp.Size, n.dataChangedAt = 0, size, now
}
