package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// fmodeExec is the flag with which the kernel opens a file to execute.
const fmodeExec = 0x20

// A staleOpen is an open that failed with ESTALE, so that the kernel tries again.
type staleOpen struct {
	pid uint32
	at  time.Time
}

// Open implements fuse.RawFileSystem. It requests the caller's rights from the
// server (ACCESS), and learns from the same reply whether the file has changed: if
// so, the data cached by the kernel are stale (close-to-open consistency). For a
// delegated file all of this is known without a call.
func (m *Mount) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := m.table.findNode(in.NodeId)
	switch {
	case n == nil:
		return errStale
	case isSubstitute(in.NodeId):
		return errAccess
	}
	o := m.beginRequest(cancel, &in.InHeader)
	defer m.endRequest(o)
	m.table.addOpen(n) // first, so that a concurrent removal sees the open
	status := m.openNode(o, n, in.Flags, out)
	if status != fuse.OK {
		m.closeNode(o, n)
	}
	return status
}

func (m *Mount) openNode(o *op, n *node, flags uint32, out *fuse.OpenOut) fuse.Status {
	if err := m.flushData(o, n); err != nil {
		return m.errorStatus(err)
	}
	rights := openRights(flags)
	data := m.startPrefetch(o, n, openDelegationTypes(flags))
	allowed, err := m.checkRights(o, n, rights, openDelegationTypes(flags))
	early := data()
	if err == nil && !n.hasLatestAttr() { // the attributes were invalidated in the meantime
		err = m.fetchAttr(o, n)
	}
	switch {
	case err != nil:
		return m.nodeErrorStatus(n, err)
	case n.isRemoved():
		return m.nodeErrorStatus(n, errRemoved) // another object may have the name
	case allowed != rights:
		return errAccess
	}
	if flags&unix.O_TRUNC != 0 {
		o.recordMayChange(n)
		err := m.setAttr(o, n, o.requestCaller(), &nfs3.SetAttr{Size: nfs3.OptUint64{Set: true}})
		if err != nil {
			return m.errorStatus(err)
		}
	}
	same, sameSize := n.isAsTold()
	if flags&unix.O_APPEND != 0 && flags&unix.O_TRUNC == 0 && !sameSize && n.mayAnswerStale(o.from.Pid) {
		// The kernel appends at the end that it has cached. ESTALE makes the kernel
		// look the name up again, and so learn the size.
		return errStale
	}
	if same {
		n.forgetStale(o.from.Pid)
	}
	if !same {
		m.expireAttr(n)
	}
	var emptied *cachedPages
	if m.mayKeepPages(o, n) {
		out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	} else {
		emptied = m.newCachedPages(n)
	}
	out.OpenFlags |= m.openReplyFlags(flags)
	if early != nil && (emptied == nil || !early.matchesPages(n, emptied)) {
		early = nil
	}
	out.Fh = m.newOpenFile(o, n, flags, emptied, early)
	return fuse.OK
}

// openDelegationTypes returns the delegations to request when a file is opened: all
// of fileTypes for a file that will be read again, and none for a file that is
// about to change. A delegation of a changing file would make other clients wait
// until this mount has returned it, and this mount as well if the server also
// recalls delegations from the client that changes the file.
func openDelegationTypes(flags uint32) delegation.Types {
	if flags&(unix.O_ACCMODE|unix.O_TRUNC) != unix.O_RDONLY {
		return 0
	}
	return fileTypes
}

// openReplyFlags returns the flags for the kernel's open file. With O_DIRECT, the
// kernel also requests data beyond the end that it has cached, and writes in
// parallel. If the file cannot be written, and cannot be locked either, close has
// nothing to wait for and Flush is skipped.
func (m *Mount) openReplyFlags(flags uint32) (open uint32) {
	if flags&unix.O_DIRECT != 0 {
		open = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_PARALLEL_DIRECT_WRITES
	}
	if flags&unix.O_ACCMODE == unix.O_RDONLY && !m.cfg.sharesPOSIX() {
		open |= fuse.FOPEN_NOFLUSH
	}
	return open
}

// openRights returns the rights that opening with flags requires.
func openRights(flags uint32) (rights uint32) {
	if flags&fmodeExec != 0 {
		return nfs3.AccessExecute
	}
	const write = nfs3.AccessModify | nfs3.AccessExtend
	switch flags & unix.O_ACCMODE {
	case unix.O_RDONLY:
		rights = nfs3.AccessRead
	case unix.O_WRONLY:
		rights = write
	default:
		rights = nfs3.AccessRead | write
	}
	if flags&unix.O_TRUNC != 0 {
		rights |= write
	}
	return rights
}

// isAsTold reports whether n's attributes, and n's size, are those that the kernel
// was given.
func (n *node) isAsTold() (same, size bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.writtenStampLocked()
	return n.toldStamp == now, n.toldStamp.Size == now.Size
}

// mayAnswerStale reports whether open may fail with ESTALE: not if the kernel has
// just retried without success.
func (n *node) mayAnswerStale(pid uint32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.lastStale != nil && n.lastStale.pid == pid && now.Sub(n.lastStale.at) < staleRetry {
		n.lastStale = nil
		return false
	}
	n.lastStale = &staleOpen{pid: pid, at: now}
	return true
}

// forgetStale records that the kernel's retry found nothing new.
func (n *node) forgetStale(pid uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lastStale != nil && n.lastStale.pid == pid {
		n.lastStale = nil
	}
}
