package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// Access implements fuse.RawFileSystem: access(2) and chdir(2). The kernel asks on
// behalf of the real user. Before other operations the kernel does not ask; the
// server decides.
func (m *Mount) Access(cancel <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	n := m.table.findNode(in.NodeId)
	if n == nil {
		return errStale
	}
	o := m.beginRequest(cancel, &in.InHeader)
	defer m.endRequest(o)
	if !n.hasLatestAttr() {
		if err := m.fetchAttr(o, n); err != nil {
			return m.nodeErrorStatus(n, err)
		}
	}
	n.mu.Lock()
	rights := accessRights(in.Mask, n.attr.Type)
	n.mu.Unlock()
	if rights == 0 {
		return fuse.OK
	}
	allowed, err := m.checkRights(o, n, rights, 0)
	if err != nil {
		return m.nodeErrorStatus(n, err)
	}
	if allowed != rights {
		return errAccess
	}
	return fuse.OK
}

// accessRights returns the ACCESS rights (RFC 1813) that access(2) with mask
// requests.
func accessRights(mask uint32, t nfs3.Type) (rights uint32) {
	read, write, exec := nfs3.AccessRead, nfs3.AccessModify|nfs3.AccessExtend, nfs3.AccessExecute
	if t == nfs3.TypeDir {
		write, exec = write|nfs3.AccessDelete, nfs3.AccessLookup
	}
	if mask&fuse.R_OK != 0 {
		rights |= read
	}
	if mask&fuse.W_OK != 0 {
		rights |= write
	}
	if mask&fuse.X_OK != 0 {
		rights |= exec
	}
	return rights
}

// StatFs implements fuse.RawFileSystem.
func (m *Mount) StatFs(cancel <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	n := m.table.findNode(h.NodeId)
	if n == nil {
		return errStale
	}
	o := m.beginRequest(cancel, h)
	defer m.endRequest(o)
	res, err := o.callerClient().FSStat(o, n.fh)
	if err != nil {
		return m.errorStatus(err)
	}
	*out = fuse.StatfsOut{
		Blocks:  res.TotalBytes / fragment,
		Bfree:   res.FreeBytes / fragment,
		Bavail:  res.AvailBytes / fragment,
		Files:   res.TotalFiles,
		Ffree:   res.FreeFiles,
		Bsize:   uint32(m.blksize),
		Frsize:  fragment,
		NameLen: m.nameMax,
	}
	return fuse.OK
}

// fragment is the unit of the counts in statfs, in bytes.
const fragment = 4096
