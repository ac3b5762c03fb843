package fusefs

import (
	"errors"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A defaultList is what is known about a directory's default ACL, from which the
// server gives new objects their ACLs (acl(5)). A default ACL replaces the umask.
type defaultList struct {
	known, exists bool
	mode          uint32    // permissions that the ACL leaves to owner, group and others
	ctime         nfs3.Time // directory's ctime with this list
	validUntil    instant   // when to fetch it again: coarse ctimes hide changes
}

// newObjectAttr returns the attributes of a new object in dir. The kernel leaves
// the umask to the mount. If dir has a default list, the list replaces the umask;
// newObjectAttr also applies it to the mode, as the server does, because the server
// does not if the mode is set after an exclusive creation.
func (m *Mount) newObjectAttr(o *op, dir *node, mode, umask uint32) (nfs3.SetAttr, error) {
	l, err := m.loadDefaultList(o, dir)
	switch {
	case err != nil:
		return nfs3.SetAttr{}, err
	case l.exists:
		mode &= l.mode | ^uint32(0o777)
	default:
		mode &^= umask
	}
	return modeAttr(mode), nil
}

// loadDefaultList returns dir's default list from a valid earlier reply or from the
// server. If the server does not report lists, the directory has none.
func (m *Mount) loadDefaultList(o *op, dir *node) (l defaultList, err error) {
	if m.noLists.Load() {
		return l, nil
	}
	dir.mu.Lock()
	l = dir.directoryState().defaults
	valid := l.known && l.validUntil.timeLeft() > 0 && dir.freshTimeLocked() > 0 && dir.attr.Ctime == l.ctime
	dir.mu.Unlock()
	if valid {
		return l, nil
	}
	until := instantOf(time.Now().Add(m.cfg.DirMax))
	began := m.nextTick()
	res, err := o.callerClient().GetACL(o, &nfsacl.GetACLArgs{Object: dir.fh, Mask: nfsacl.MaskDefault | nfsacl.MaskDefaultCount})
	switch {
	case err == nil:
		m.learnPostOpAttr(dir, began, &res.Attr)
		l = newDefaultList(res.Default)
		l.known, l.ctime = res.Attr.OK, res.Attr.Attr.Ctime
	case !m.isListUnavailable(err):
		return defaultList{}, err
	default:
		dir.mu.Lock()
		l = defaultList{known: dir.known, ctime: dir.attr.Ctime}
		dir.mu.Unlock()
	}
	l.validUntil = until
	dir.setDefaultList(l)
	return l, nil
}

// isListUnavailable reports whether an error from GETACL means that the server
// responds, but does not report a directory's lists. A new object then gets no more
// rights than the umask leaves.
func (m *Mount) isListUnavailable(err error) bool {
	var refused *nfsclient.Error
	var reply *oncrpc.ReplyError
	var auth rpcmsg.AuthError
	switch {
	case errors.As(err, &refused):
		return refused.Status != nfs3.ErrStale && refused.Status != nfs3.ErrBadHandle
	case errors.As(err, &reply):
		switch reply.Stat {
		case rpcmsg.ProgUnavail, rpcmsg.ProgMismatch, rpcmsg.ProcUnavail:
			m.noLists.Store(true)
		}
		return true
	}
	return errors.As(err, &auth) || errors.Is(err, nfsclient.ErrReply)
}

// newDefaultList returns the defaultList for an access control list.
func newDefaultList(acl nfsacl.ACL) (l defaultList) {
	l.exists = len(acl) > 0
	var group, mask uint32
	masked := false
	for _, e := range acl {
		switch e.Tag {
		case nfsacl.UserObj:
			l.mode |= e.Perm << 6
		case nfsacl.GroupObj:
			group = e.Perm
		case nfsacl.Mask:
			mask, masked = e.Perm, true
		case nfsacl.Other:
			l.mode |= e.Perm
		}
	}
	if masked {
		group = mask
	}
	l.mode |= group << 3
	return l
}

func (n *node) setDefaultList(l defaultList) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.directoryState().defaults = l
}

// keepDefaultList keeps n's known default list valid across our change of names in
// n: no other client has changed n if its ctime before the change is the known one.
func (n *node) keepDefaultList(w *nfs3.WccData) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := &n.directoryState().defaults; l.known && w.Before.OK && w.After.OK && w.Before.Ctime == l.ctime {
		l.ctime = w.After.Attr.Ctime
	}
}

// inheritDefaultList records the default list of a directory just created in n. It
// is n's list, if w shows that n still had the known list.
func (n *node) inheritDefaultList(made *node, w *nfs3.WccData, a *nfs3.PostOpAttr) {
	n.mu.Lock()
	l := n.directoryState().defaults
	n.mu.Unlock()
	if l.known && w.After.OK && w.After.Attr.Ctime == l.ctime && a.OK {
		l.ctime = a.Attr.Ctime
		made.setDefaultList(l)
	}
}
